#!/bin/sh
# Installs the Debian packages that are missing. scripts/setup.sh [build|test|sanitize|lint|coverage]: what is needed to
# build (default), to run the tests as well, to run them with the preset asan, to check format and style as well, or to
# count the lines that tests run.
set -eu

build="ca-certificates cmake ninja-build g++ pkg-config libgrpc++-dev protobuf-compiler protobuf-compiler-grpc
  libprotobuf-dev libabsl-dev libcli11-dev nlohmann-json3-dev libspdlog-dev libdnnl-dev libhwy-dev libjpeg-dev libpng-dev
  libwebp-dev prometheus-cpp-dev zlib1g-dev libicu-dev libssl-dev"
# qemu-user: processors of other kinds than this machine's. python3-...: what the Python client runs on.
test="libgtest-dev libgmock-dev libbenchmark-dev qemu-user python3-grpcio python3-protobuf python3-numpy"
# The clang of Debian 13 and of 12. llvm: for the names of functions in the sanitizers' reports.
case "$(. /etc/os-release && echo "${VERSION_ID:-}")" in
  13*) clang=19 ;;
  *) clang=14 ;;
esac
sanitize="clang-$clang libclang-rt-$clang-dev llvm-$clang"
lint="clang-format-14 clang-tidy-14 $sanitize"
coverage="python3"

case "${1:-build}" in
  build) wanted="$build" ;;
  test) wanted="$build $test" ;;
  sanitize) wanted="$build $test $sanitize" ;;
  lint) wanted="$build $test $lint" ;;
  coverage) wanted="$build $test $coverage" ;;
  *) echo "setup.sh: '$1' is none of build, test, sanitize, lint, coverage" >&2; exit 2 ;;
esac

missing=""
for package in $wanted; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || missing="$missing $package"
done
if [ -z "$missing" ]; then
  exit 0
fi

run=""
if [ "$(id -u)" != 0 ]; then
  command -v sudo > /dev/null || {
    echo "setup.sh: these Debian packages are missing, and there is neither root nor sudo to install them:$missing" >&2
    exit 1
  }
  run=sudo
fi
echo "Installing:$missing"
export DEBIAN_FRONTEND=noninteractive
$run apt-get update -qq
# shellcheck disable=SC2086  # a list of packages
$run apt-get install -y -qq --no-install-recommends $missing > /dev/null
