#!/usr/bin/env python3
"""Open-loop load of 1, 2, 5 and 10 times what the server can do, the server on processor 0 and the client on 1: a random
Tiny LION-S, images of 224 x 224 as JPEG. Fails where the server answers less than 95 % of its best at ten times the load,
refuses later than 5 ms (p99, as the client sees it), lets an accepted call wait longer than its queue can last, fails a call
otherwise, or grows.

overload.py [SECONDS A RUN]. Needs the release build, Python 3.9 and two processors that nobody else uses.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import threading

from server_process import BIN, Server, make_model

LOADS = 1, 2, 5, 10
LEAST_GOODPUT = 0.95
MOST_REFUSAL_MS = 5
MOST_GROWTH_MIB = 32
TOKENS = 196  # a 224 x 224 image in patches of 16; the class token is left out
QUEUE_TOKENS = 8192


def bench(server, folder, *arguments):
    report = folder / "report.json"
    subprocess.run(["taskset", "-c", "1", BIN / "lion", "bench", "--server", server.address, "--sizes", "224", "--format",
                    "jpeg", "--connections", "4", "--warm-up-s", "2", "--json", report, *map(str, arguments)],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return json.loads(report.read_text())


class Peak:
    """The most memory that the server held, asked for ten times a second."""

    def __init__(self, server):
        self.server, self.most, self.stop = server, 0, threading.Event()
        self.thread = threading.Thread(target=self._watch)

    def _watch(self):
        while not self.stop.wait(0.1):
            self.most = max(self.most, self.server.resident_mib())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


def milliseconds(latency, name):
    value = latency.get(name)
    return None if value is None else 1e-6 * value


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20
    failures, goodput, peaks = [], {}, {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = make_model(folder / "tiny", "--size", "tiny", "--variant", "s")
        with Server(folder, "--model", model, "--cpu-threads", 1, "--decode-threads", 1, "--max-input-tokens", 1024,
                    "--max-batch-tokens", 2048, "--max-queue-tokens", QUEUE_TOKENS, cpu=0) as server:
            capacity = bench(server, folder, "--concurrency", 24, "--duration-s", seconds)["per_second"]["answered"]
            bound_ms = 1e3 * (QUEUE_TOKENS + 2 * 2048) / TOKENS / capacity
            print(f"closed loop: {capacity:.1f} images/s; a call may wait for {QUEUE_TOKENS} tokens of the queue, a batch "
                  f"before it and its own: {bound_ms:.0f} ms")
            print("load   asked for   answered  share  accepted: p99 or max, ms  refused  refusal p50, ms  p99, ms  memory, MiB")
            for load in LOADS:
                with Peak(server) as peak:
                    report = bench(server, folder, "--rate", load * capacity, "--duration-s", seconds,
                                   "--max-in-flight", 100000)
                goodput[load] = report["per_second"]["answered"]
                peaks[load] = peak.most
                latency = report["latency"]["server_total"]
                # The longest where too few were accepted for a 99th percentile.
                accepted = milliseconds(latency, "p99_ns") or milliseconds(latency, "max_ns")
                refused = {error["code"]: error for error in report["errors"]}
                refusal = refused.pop("RESOURCE_EXHAUSTED", {"count": 0, "from_send": {}})
                late = milliseconds(refusal["from_send"], "p99_ns")
                print("{:>3}x {:>9.1f}/s {:>8.1f}/s {:>5.1f}% {:>24} {:>8} {:>16} {:>8} {:>12.0f}".format(
                    load, load * capacity, goodput[load], 100 * goodput[load] / max(goodput.values()),
                    "-" if accepted is None else f"{accepted:.1f}", refusal["count"],
                    *("-" if x is None else f"{x:.2f}" for x in (milliseconds(refusal["from_send"], "p50_ns"), late)),
                    peak.most), flush=True)
                if accepted is not None and accepted > bound_ms:
                    failures.append(f"{load}x: an accepted call took {accepted:.1f} ms, bound {bound_ms:.0f} ms")
                if late is not None and late > MOST_REFUSAL_MS:
                    failures.append(f"{load}x: refusals came after {late:.2f} ms (p99), want {MOST_REFUSAL_MS}")
                failures += [f"{load}x: {error['count']} calls failed with {code}: {error['message']}"
                             for code, error in refused.items()]
            if server.stop() != 0:
                failures.append("the server did not exit with 0")
    if goodput[LOADS[-1]] < LEAST_GOODPUT * max(goodput.values()):
        failures.append(f"goodput at {LOADS[-1]}x: {100 * goodput[LOADS[-1]] / max(goodput.values()):.1f} % of the best")
    if peaks[LOADS[-1]] > peaks[LOADS[0]] + MOST_GROWTH_MIB:
        failures.append(f"memory grew from {peaks[LOADS[0]]:.0f} to {peaks[LOADS[-1]]:.0f} MiB")
    print("\n".join(failures) or "as promised")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
