#!/bin/sh
# 200,000 requests, as calls and on streams of 32 clients, with random sizes, cancels, deadlines and bad inputs, while the
# models are loaded again and again: every request has exactly one ending, every answer equals the same image alone, bit for
# bit, and the metrics agree. accounting.sh [REQUESTS [CLIENTS]]. Needs a build (scripts/test.sh makes it).
set -eu
cd "$(dirname "$0")/../.."
LION_REQUESTS=${1:-200000} LION_CLIENTS=${2:-32} build/release/tests/accounting_test
