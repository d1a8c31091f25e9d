#!/usr/bin/env python3
"""Runs the same weights and images through our engine and its peers, checks that all agree, and times them in turns.

run.sh makes the environment that this needs and calls it. Results go line by line to WORK/results.jsonl, and from there
(report.py) into tables and plots.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

import numpy

import machine
import matrix
import report
from worker import Failure, Worker

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TURN_MS = 60  # a peer's turn: as many passes as fit, at least one
QUIET_S = 0.03  # between two turns: threads that spin after their work are given time to stop
ALONE_MS, ALONE_BYTES = 10_000, 3 << 30  # who needs more has its passes at once and then makes room
MEMORY_SHARE = 0.9  # of what is there when a peer starts: it fails before the machine does
HUGE_TOKENS = 10_000  # of an image; forms that take a square of it begin while nobody else holds memory
ENOUGH_PASSES, ENOUGH_MS, MOST_MS, MOST_PASSES = 5, 2_000, 10_000, 60


def is_measured(result):
    """Also those that cannot be measured here: another try would end as the first did."""
    return result.get("failure", "over ").startswith(("over ", "out of memory", "does not agree"))


class Comparison:
    def __init__(self, o):
        self.o = o
        self.deadline = time.monotonic() + 60 * o.minutes
        self.results_path = o.work / "results.jsonl"
        self.done = {}
        if o.resume and self.results_path.exists():
            lines = [json.loads(line) for line in self.results_path.read_text().splitlines()]
            self.done = {(line["case"], line["peer"]): line for line in lines if is_measured(line)}
        else:
            for name in ("models", "images", "references", "onnx", "logs"):
                shutil.rmtree(o.work / name, ignore_errors=True)
            self.results_path.unlink(missing_ok=True)
        for name in ("models", "images", "references", "onnx", "logs"):
            (o.work / name).mkdir(parents=True, exist_ok=True)
        self.environment = dict(
            os.environ, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS=str(o.threads), MKL_NUM_THREADS=str(o.threads),
            TORCHINDUCTOR_CACHE_DIR=str(o.work / "inductor"), HF_HUB_OFFLINE="1")
        # PyTorch frees and takes its large temporaries anew in every pass. Without this, clearing their pages makes up
        # half the time of its attention form.
        self.torch_environment = dict(self.environment, MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_="100000000000")

    def record(self, case, peer, **values):
        values = {"case": case.name, "model": case.model, "side": case.side, "batch": case.batch, "tokens": case.tokens,
                  "peer": peer.name, "framework": peer.framework, "form": peer.form, "type": peer.type, **values}
        self.done[case.name, peer.name] = values
        with open(self.results_path, "a") as file:
            print(json.dumps(values), file=file)
        if "failure" in values:
            text = f"{values['failure']}"
        else:
            text = (f"{values['ms']:10.1f} ms  {values['passes']:3} passes  {values['peak_bytes'] / 2**20:8.0f} MiB  "
                    f"error {values['error']:.1e}")
        print(f"  {peer.name:42} {text}", flush=True)

    # What the peers need: files, made once each.

    def python(self, script, *arguments, limit_s=600):
        log = self.o.work / "logs" / f"{pathlib.Path(script).stem}.log"
        with open(log, "w") as errors:
            done = subprocess.run([sys.executable, script, *map(str, arguments)], env=self.environment, stdout=errors,
                                  stderr=errors, timeout=limit_s)
        if done.returncode:
            last = log.read_text().strip().splitlines()[-1:] or [f"code {done.returncode}"]
            raise Failure(f"{pathlib.Path(script).name}: {last[0][:200]}")

    def model(self, case, peer):
        size, variant, order = case.size, case.variant, case.order
        if peer.form == "softmax":
            variant, order = "softmax", "normal"
        folder = self.o.work / "models" / f"{size}-{variant}-{order}"
        if not (folder / "config.json").exists():
            self.python(ROOT / "tools/make_model.py", folder, "--size", size, "--variant", variant, "--order", order,
                        "--num-classes", 0)
        return folder

    def images(self, case):
        path = self.o.work / "images" / f"{case.side}-{case.batch}.f32"
        if not path.exists():
            shape = (case.batch, 3, case.side, case.side)
            numpy.random.default_rng(case.side).standard_normal(shape, numpy.float32).tofile(path)
        return path

    def reference(self, case, peer):
        model, images = self.model(case, peer), self.images(case)
        path = self.o.work / "references" / f"{model.name}-{images.stem}.f64"
        if not path.exists():
            self.python(HERE / "reference.py", model, images, path, "--side", case.side, "--batch", case.batch,
                        "--threads", self.o.threads)
        return numpy.fromfile(path)

    def onnx(self, case, peer):
        path = self.o.work / "onnx" / f"{self.model(case, peer).name}-{peer.form}-{case.side}-{case.batch}.onnx"
        if not path.exists():
            self.python(HERE / "export_onnx.py", self.model(case, peer), path, "--form", peer.form, "--side", case.side,
                        "--batch", case.batch)
        return path

    # One peer.

    def start(self, case, peer):
        common = ["--images", self.images(case), "--side", case.side, "--batch", case.batch, "--type", peer.type,
                  "--threads", self.o.threads, "--turn-ms", TURN_MS]
        if peer.framework == "lion":
            command = [self.o.lion_runner, self.model(case, peer), *common]
        else:
            command = [sys.executable, HERE / "peer.py", self.model(case, peer), "--framework", peer.framework,
                       "--form", peer.form, *common]
            if peer.framework in ("ONNX Runtime", "OpenVINO"):
                command += ["--onnx", self.onnx(case, peer)]
        log = self.o.work / "logs" / (re.sub(r"\W+", "-", f"{case.name}-{peer.name}") + ".log")
        environment = self.torch_environment if peer.framework.startswith("PyTorch") else self.environment
        memory_limit = int(MEMORY_SHARE * machine.available_bytes())
        return Worker([str(word) for word in command], log, environment, memory_limit, self.o.start_limit_s)

    def error(self, case, peer, worker):
        """Relative L2 error of the embeddings of the last run."""
        path = self.o.work / "embeddings.f32"
        worker.ask(f"write {path}", 60)
        actual, expected = numpy.fromfile(path, numpy.float32).astype(float), self.reference(case, peer)
        if actual.size != expected.size:
            raise Failure(f"does not agree: {actual.size} numbers instead of {expected.size}")
        return float(numpy.linalg.norm(actual - expected) / numpy.linalg.norm(expected))

    def first_pass(self, case, peer):
        """A worker that has run once and agrees, and its record so far."""
        self.reference(case, peer)
        worker = self.start(case, peer)
        try:
            times = worker.ask("run", self.o.limit_s)["ms"]
            error = self.error(case, peer, worker)
            if not error <= matrix.LARGEST_ERROR[peer.type]:
                raise Failure(f"does not agree: relative error {error:.1e}")
        except BaseException:
            worker.stop()
            raise
        return worker, {"error": error, "first_ms": times[0], "times": [], "passes": 0}

    def turn(self, worker, values):
        time.sleep(QUIET_S)
        values["times"] += worker.ask("run", self.o.limit_s)["ms"]

    def finish(self, case, peer, worker, values):
        times = values.pop("times")
        try:
            peak = worker.ask("memory", 60)["peak_bytes"]
        finally:
            worker.stop()
        self.record(case, peer, **values | {
            "passes": len(times), "ms": statistics.median(times), "fastest_ms": min(times), "slowest_ms": max(times),
            "peak_bytes": max(peak, 0)})

    # One case.

    def run(self, case):
        wanted = [peer for peer in case.peers if re.search(self.o.only, f"{case.name} {peer.name}")]
        todo = [peer for peer in wanted if (case.name, peer.name) not in self.done]
        if not todo:
            return
        print(f"{case.name} ({case.tokens:,} tokens)", flush=True)
        # --resume after a part of a case: those missing are timed beside our engine's present speed.
        todo = [peer for peer in wanted if peer.framework == "lion" or peer in todo]
        if case.tokens_per_image > HUGE_TOKENS:
            todo.sort(key=lambda peer: peer.form not in ("attention", "softmax"))
        together = {}
        try:
            for peer in todo:
                self.begin(case, peer, together)
            self.take_turns(case, together)
        finally:
            for worker, _ in together.values():
                worker.stop()

    def begin(self, case, peer, together):
        """Into `together`, if it is quick and small enough; otherwise it is measured here and ended."""
        if time.monotonic() > self.deadline:
            return self.record(case, peer, failure="time was up")
        try:
            worker, values = self.first_pass(case, peer)
        except (Failure, subprocess.TimeoutExpired, OSError, ValueError) as failure:
            return self.record(case, peer, failure=str(failure))
        resident = sum(other.resident_bytes() for other, _ in together.values())
        is_small = worker.resident_bytes() < ALONE_BYTES and resident < machine.available_bytes() / 2
        if is_small and values["first_ms"] < ALONE_MS:
            together[peer] = worker, values
            return
        values["alone"] = True
        try:
            if values["first_ms"] >= ALONE_MS:
                values["times"].append(values["first_ms"])  # warming up does not count beside so much work
            while not enough(values["times"]):
                self.turn(worker, values)
            self.finish(case, peer, worker, values)
        except Failure as failure:
            worker.stop()
            self.record(case, peer, failure=str(failure))

    def take_turns(self, case, together):
        waiting = list(together)
        while waiting:
            for peer in waiting:
                worker, values = together[peer]
                try:
                    self.turn(worker, values)
                except Failure as failure:
                    worker.stop()
                    together.pop(peer)
                    self.record(case, peer, failure=str(failure))
            waiting = [peer for peer in reversed(waiting)
                       if peer in together and not enough(together[peer][1]["times"])]
        for peer in list(together):
            worker, values = together.pop(peer)
            try:
                self.finish(case, peer, worker, values)
            except Failure as failure:
                self.record(case, peer, failure=str(failure))


def enough(times):
    total = sum(times)
    return total >= MOST_MS or len(times) >= MOST_PASSES or (len(times) >= ENOUGH_PASSES and total >= ENOUGH_MS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--quick", action="store_true", help="about 5 minutes: the tiny models, up to 1024 pixels")
    add("--resume", action="store_true", help="keep what an earlier run of the same has measured")
    add("--only", default="", metavar="REGEX", help='of "MODEL / SIDE / BATCH FRAMEWORK / FORM / TYPE"')
    add("--minutes", type=float, help="no new peer starts after this long; 22, or 5 with --quick")
    add("--limit-s", type=float, default=60, help="for one pass; a slower one is reported as such")
    add("--start-limit-s", type=float, default=300, help="for loading, and compiling")
    add("--threads", type=int, default=min(2, machine.cores()), help="of every peer")
    add("--work", type=pathlib.Path, help="models, results, logs; build/peers/full, or quick")
    add("--lion-runner", type=pathlib.Path, default=ROOT / "build/release/bin/lion_runner")
    add("--output", type=pathlib.Path, help="tables and plots; docs/performance, or WORK with --quick or --only")
    o = parser.parse_args()
    o.minutes = o.minutes or (5 if o.quick else 22)
    o.work = (o.work or ROOT / "build/peers" / ("quick" if o.quick else "full")).resolve()
    o.output = o.output or (o.work if o.quick or o.only else ROOT / "docs/performance")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # so that the workers are stopped
    started = machine.describe(o.threads)
    if started["load_at_start"] > 0.5:
        print(f"warning: the load is {started['load_at_start']:.1f}: on a machine that does other work these figures "
              "mean little, and those of PyTorch (whose threads wait for each other by spinning) nothing", flush=True)
    comparison = Comparison(o)
    cases = matrix.QUICK if o.quick else matrix.FULL
    for case in cases:
        comparison.run(case)
    results = [comparison.done[case.name, peer.name] for case in cases for peer in case.peers
               if (case.name, peer.name) in comparison.done]
    started["load_at_end"] = machine.load()
    report.write(o.output, {"machine": started, "results": results})
    failed = [result for result in results if result.get("failure", "").startswith("does not agree")]
    raise SystemExit(f"{len(failed)} do not agree with the reference" if failed else 0)


if __name__ == "__main__":
    main()
