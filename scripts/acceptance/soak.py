#!/usr/bin/env python3
"""Mixed sizes at about half of what the server can do, for a long time: memory must not creep, and descriptors and threads
must be as many at the end as at the beginning. The first quarter is warm-up.

soak.py [--minutes 30]. Needs the release build and Python 3.9.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from server_process import BIN, ROOT, Server, make_model

MOST_MIB_IN_10_MINUTES = 1
SIZES = "28:4,64x96:2,224:2,512:1"


def load(server, *arguments):
    return [BIN / "lion", "bench", "--server", server.address, "--model", "tiny", "--sizes", SIZES, "--format", "jpeg",
            *map(str, arguments)]


def slope(points):
    """Least squares through (x, y), and its standard error."""
    n = len(points)
    mean_x, mean_y = (sum(values) / n for values in zip(*points))
    spread = sum((x - mean_x)**2 for x, _ in points)
    rise = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    rest = sum((y - mean_y - rise * (x - mean_x))**2 for x, y in points)
    return rise, (rest / max(n - 2, 1) / spread)**0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    seconds = 60 * parser.parse_args().minutes
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = make_model(folder / "tiny", "--size", "tiny", "--variant", "s")
        with Server(folder, "--model", f"tiny={model}", "--model", ROOT / "models" / "mnist-lion-s",
                    "--max-input-tokens", 4096) as server:
            trial = folder / "trial.json"
            subprocess.run(load(server, "--concurrency", 8, "--duration-s", min(10, seconds / 10), "--json", trial),
                           check=True, stdout=subprocess.DEVNULL)
            rate = 0.5 * json.loads(trial.read_text())["per_second"]["answered"]
            report = folder / "report.json"
            bench = subprocess.Popen(load(server, "--rate", rate, "--duration-s", seconds, "--json", report),
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            start, samples = time.monotonic(), []
            while bench.poll() is None:
                time.sleep(0.5)
                now = time.monotonic() - start
                if seconds / 4 < now < seconds:
                    samples.append((now / 600, server.resident_mib(), server.descriptors(), server.threads()))
            calls = json.loads(report.read_text())
            exit_code = server.stop()
    rise, error = slope([(at, mib) for at, mib, *_ in samples])
    descriptors, threads = ({sample[i] for sample in samples} for i in (2, 3))
    print(f"{calls['calls']['succeeded']} calls answered, {calls['calls']['failed']} failed, at {rate:.1f} a second; "
          f"resident memory {samples[0][1]:.1f} to {samples[-1][1]:.1f} MiB, slope {rise:+.2f} +- {error:.2f} MiB in 10 "
          f"minutes; {min(descriptors)} to {max(descriptors)} descriptors, {min(threads)} to {max(threads)} threads")
    failures = []
    if rise - 3 * error > MOST_MIB_IN_10_MINUTES:
        failures.append(f"memory creeps: want at most {MOST_MIB_IN_10_MINUTES} MiB in 10 minutes")
    if len(descriptors) > 1 or len(threads) > 1:
        failures.append("descriptors or threads are not constant")
    if calls["calls"]["failed"] or calls["calls"]["succeeded"] == 0:
        failures.append(f"calls failed: {calls['errors']}")
    if exit_code != 0:
        failures.append(f"the server exited with {exit_code}")
    print("\n".join(failures) or "as promised")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
