#!/bin/bash
# clang-tidy (.clang-tidy) over the project's sources; any finding is an error. scripts/lint.sh [--since REVISION] [PATH...]:
# all of them, those that changed since then, or those below the paths.
set -euo pipefail
cd "$(dirname "$0")/.."

paths=()
since=""
while [ $# -gt 0 ]; do
  case "$1" in
    --since) since="${2:?lint.sh: --since wants a revision}"; shift 2 ;;
    -*) echo "lint.sh: '$1' is none of --since" >&2; exit 2 ;;
    *) paths+=("$1"); shift ;;
  esac
done

scripts/setup.sh lint
cmake --preset lint -DLION_BUILD_TESTS=ON > /dev/null
cmake --build --preset lint --target lion_proto > /dev/null

if [ -n "$since" ]; then
  # A changed header is checked through the sources of its folder.
  changed="$(git diff --name-only "$since" -- '*.cc' '*.cu' '*.h')"
  mapfile -t files < <(
    { grep '\.c[cu]$' <<< "$changed"
      grep '\.h$' <<< "$changed" | xargs -r -n1 dirname | sort -u | while read -r folder; do git ls-files "$folder/*.cc" "$folder/*.cu"; done
    } | sort -u | while read -r file; do [ -f "$file" ] && echo "$file"; done)
else
  mapfile -t files < <(git ls-files -- "${paths[@]/%//*.c[cu]}" | grep '\.c[cu]$')
fi
# Only what the build knows: fuzz targets belong to another preset.
mapfile -t files < <(for file in "${files[@]}"; do grep -q "\"$PWD/$file\"" build/lint/compile_commands.json && echo "$file"; done || true)
if [ "${#files[@]}" = 0 ]; then
  echo "lint: no source to check"
  exit 0
fi
findings="$(printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy-14 -p build/lint --quiet 2>&1 |
  grep -v 'warnings generated\|^Suppressed\|^Use -header-filter' || true)"
if [ -n "$findings" ]; then
  echo "$findings"
  exit 1
fi
echo "lint: ${#files[@]} sources, no findings"
