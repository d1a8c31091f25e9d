"""Sums up what gcov counted in a build tree; scripts/coverage.sh runs it. Python's standard library alone."""

import argparse
import collections
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("model_loader", "engine", "server", "kernels", "client")
REQUIRED = {"model_loader": 85, "engine": 85, "server": 85}  # percent of lines
PER_CALL = 64  # files for one gcov


def read_counts(build):
    """{file: {line: times run}}: headers and templates are in several objects, so their counts are added up."""
    counted = sorted(path.resolve() for path in build.rglob("*.gcda"))
    if not counted:
        sys.exit(f"coverage.py: {build} holds no counts (*.gcda): no test has run there")
    counts = collections.defaultdict(collections.Counter)
    for begin in range(0, len(counted), PER_CALL):
        done = subprocess.run(["gcov", "--json-format", "--stdout", *counted[begin:begin + PER_CALL]], cwd=build,
                              check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for report in done.stdout.splitlines():
            if not report.strip():
                continue
            report = json.loads(report)
            for source in report["files"]:
                # What headers are included through is a link; generated code lies in the build tree.
                path = pathlib.Path(report["current_working_directory"], source["file"]).resolve()
                if not path.is_relative_to(ROOT) or path.is_relative_to(build.resolve()):
                    continue
                for line in source["lines"]:
                    counts[str(path.relative_to(ROOT))][line["line_number"]] += max(line["count"], 0)
    return counts


def blocks(lines):
    """Runs of lines that were not run, as (first, last); lines without code between two do not part them."""
    found = []
    for line in sorted(lines):
        if lines[line]:
            found.append(None)
        elif found and found[-1]:
            found[-1] = (found[-1][0], line)
        else:
            found.append((line, line))
    return [block for block in found if block]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--missing", action="append", default=[], metavar="FOLDER", help="list its lines that did not run")
    arguments = parser.parse_args()
    counts = read_counts(arguments.build)
    failed = False
    print(f"{'folder':<14}{'lines':>8}{'covered':>9}{'percent':>9}")
    for folder in FOLDERS:
        lines = [count for path, of in counts.items() if path.startswith(f"{folder}/") for count in of.values()]
        covered = sum(count > 0 for count in lines)
        percent = 100 * covered / max(len(lines), 1)
        low = percent < REQUIRED.get(folder, 0)
        failed |= low
        print(f"{folder:<14}{len(lines):>8}{covered:>9}{percent:>9.1f}" + (f"  below {REQUIRED[folder]}" if low else ""))
    for folder in arguments.missing:
        for path in sorted(path for path in counts if path.startswith(f"{folder}/")):
            ranges = ", ".join(f"{first}-{last}" if first != last else str(first) for first, last in blocks(counts[path]))
            if ranges:
                print(f"{path}: {ranges}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
