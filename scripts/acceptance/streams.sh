#!/bin/sh
# 100,000 streamed requests of mixed sizes with random cancels, timeouts and bad inputs from 32 clients: every request has
# exactly one ending, every answer equals the same image alone, bit for bit. Needs a build (scripts/test.sh makes it).
set -eu
cd "$(dirname "$0")/../.."
LION_STREAM_REQUESTS=100000 LION_STREAM_CLIENTS=32 build/release/tests/stream_test
