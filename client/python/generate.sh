#!/bin/sh
# Writes lion_client/lion_pb2.py and .pyi from proto/lion/v1/lion.proto; generate.sh FOLDER: into FOLDER instead. They
# are checked in, so that an installation needs no compiler and no files from outside of this folder. Run with the
# protoc of Debian 12 or 13 (3.21): what it writes runs with every Python protobuf from 4.21 on, where a newer protoc's
# code refuses the older ones. The test python_client.generated fails when they are not current.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
target=${1:-$here/lion_client}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
protoc -I "$here/../../proto" --python_out "$work" --pyi_out "$work" lion/v1/lion.proto
mv "$work/lion/v1/lion_pb2.py" "$work/lion/v1/lion_pb2.pyi" "$target"
