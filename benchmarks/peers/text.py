#!/usr/bin/env python3
"""Text encoders on the same weights and token ids: our engine's LION and softmax models, the softmax one in its own library,
transformers, and LION in PyTorch as it is trained. All that compute the same must agree before any is timed; then they take
turns (README.md). Prints a table in Markdown.

text.py [--quick]. run.sh --text makes the environment that this needs and calls it.
"""

import argparse
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

import machine
from worker import Failure, Worker

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
VOCABULARY, FIRST_WORD = 30522, 1000
QUIET_S, TURN_MS, PASSES, LIMIT_S = 0.03, 60, 5, 120
LARGEST_ERROR = {"float32": 4e-5, "bfloat16": 5e-2}  # relative L2, between two that compute the same


def mixed_lengths(count, least, most, seed=1):
    """Evenly spread on a logarithmic scale."""
    random_ = random.Random(seed)
    return [round(math.exp(random_.uniform(math.log(least), math.log(most)))) for _ in range(count)]


BATCHES = {
    "32 texts of 16 to 512 tokens": mixed_lengths(32, 16, 512),
    "32 texts of 32 tokens": [32] * 32,
    "1 text of 512 tokens": [512],
    "1 text of 4,096 tokens": [4096],
    "1 text of 16,384 tokens": [16384],
}
LONGEST = max(max(lengths) for lengths in BATCHES.values())  # positions, of the models that have them
PEERS = [("lion", "s", "LION-S, this engine"), ("lion", "lit", "LION-LIT, this engine"),
         ("lion", "softmax", "softmax, this engine"), ("torch", "softmax", "softmax, transformers"),
         ("torch", "s", "LION-S, PyTorch, attention form")]


class Comparison:
    def __init__(self, o, folder):
        self.o, self.folder, self.rows = o, folder, []

    def model(self, variant):
        path = self.folder / f"{self.o.size}-{variant}"
        if not path.exists():
            # Random LION models without that norm blow rounding up tenfold.
            norm = [] if variant == "softmax" else ["--layer-norm-after"]
            subprocess.run([sys.executable, ROOT / "tools/make_model.py", path, "--modality", "text", "--size",
                            self.o.size, "--variant", variant, "--vocabulary", str(VOCABULARY), "--max-positions",
                            str(LONGEST), *norm], check=True, stdout=subprocess.DEVNULL)
        return path

    def start(self, framework, variant, type_, texts):
        common = [self.model(variant), "--texts", texts, "--type", type_, "--threads", self.o.threads,
                  "--turn-ms", TURN_MS]
        if framework == "lion":
            command = [self.o.lion_runner, *common]
        else:
            form = "softmax" if variant == "softmax" else "attention"
            command = [sys.executable, HERE / "text_peer.py", *common, "--form", form]
        environment = dict(os.environ, OMP_NUM_THREADS=str(self.o.threads), HF_HUB_OFFLINE="1",
                           PYTHONDONTWRITEBYTECODE="1")
        return Worker([str(word) for word in command], self.folder / f"{framework}-{variant}.log", environment,
                      int(0.9 * machine.available_bytes()), LIMIT_S)

    def embeddings(self, worker):
        path = self.folder / "embeddings.f32"
        worker.ask(f"write {path}", LIMIT_S)
        return numpy.fromfile(path, numpy.float32).astype(float)

    def run(self, name, lengths, type_):
        random_ = random.Random(2)
        texts = self.folder / "texts"
        texts.write_text("".join(" ".join(str(random_.randrange(FIRST_WORD, VOCABULARY)) for _ in range(length)) + "\n"
                                 for length in lengths))
        workers, times, found, failed = {}, {}, {}, {}
        try:
            for framework, variant, label in PEERS:
                try:
                    worker = self.start(framework, variant, type_, texts)
                    workers[label] = worker
                    first = worker.ask("run", LIMIT_S)["ms"]
                    found.setdefault(variant, {})[label] = self.embeddings(worker)
                    times[label] = first if first[0] > 20_000 else []
                except Failure as failure:
                    failed[label] = str(failure)
                    if label in workers:
                        workers.pop(label).stop()
            for same in found.values():
                first, *others = same
                for other in others:
                    error = numpy.linalg.norm(same[other] - same[first]) / numpy.linalg.norm(same[first])
                    print(f"  {other} and {first}: relative difference {error:.1e}", file=sys.stderr)
                    if not error <= LARGEST_ERROR[type_]:
                        raise SystemExit(f"{name}, {type_}: {other} and {first} do not agree: {error:.1e}")
            while waiting := [label for label in workers if len(times[label]) < PASSES and sum(times[label]) < 20_000]:
                for label in waiting:
                    time.sleep(QUIET_S)
                    times[label] += workers[label].ask("run", LIMIT_S)["ms"]
        finally:
            for worker in workers.values():
                worker.stop()
        tokens = sum(lengths)
        ours = statistics.median(times[PEERS[0][2]])
        for _, _, label in PEERS:
            if label in failed:
                self.rows.append(f"| {name} | {type_} | {label} | {failed[label]} | | |")
                continue
            ms = statistics.median(times[label])
            self.rows.append(f"| {name} | {type_} | {label} | {ms:,.1f} | {1e3 * tokens / ms:,.0f} | {ms / ours:.2f} |")
            print(self.rows[-1], flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="small", choices=("tiny", "small", "base"))
    parser.add_argument("--types", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--quick", action="store_true", help="only the first batch")
    parser.add_argument("--threads", type=int, default=min(2, machine.cores()))
    parser.add_argument("--lion-runner", type=pathlib.Path, default=ROOT / "build/release/bin/lion_runner")
    o = parser.parse_args()
    print(f"{o.size}, {o.threads} threads, load {machine.load():.1f}, {machine.revision()}")
    print("| batch | type | | ms | tokens/s | time / LION-S |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(o, pathlib.Path(folder))
        for name, lengths in list(BATCHES.items())[:1 if o.quick else None]:
            for type_ in o.types:
                comparison.run(name, lengths, type_)


if __name__ == "__main__":
    main()
