#!/usr/bin/env python3
"""The last step of accuracy.sh: compares the answers of PyTorch (CSV) and of `lion classify --json` (JSON lines)."""

import argparse
import csv
import json
import pathlib

BOUNDS = {"float32": 0.05, "bfloat16": 0.1}  # percentage points


def read_csv(path):
    with open(path, newline="") as file:
        return {row["file"]: int(row["predicted"]) for row in csv.DictReader(file)}


def read_json_lines(path):
    predictions = {}
    for line in path.read_text().splitlines():
        answer = json.loads(line)
        if "scores" not in answer:
            raise SystemExit(f"{path.name}: {line}")
        name = pathlib.PurePath(answer["file"]).name
        if name in predictions:
            raise SystemExit(f"{path.name}: two answers for {name}")
        best = answer["scores"][0]
        if best["label"] != str(best["index"]):
            raise SystemExit(f"{path.name}: class {best['index']} of the digits is called {best['label']!r}")
        predictions[name] = best["index"]
    return predictions


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pytorch", type=pathlib.Path, help="from tools/accuracy_pytorch.py")
    parser.add_argument("float32", type=pathlib.Path)
    parser.add_argument("bfloat16", type=pathlib.Path, nargs="?", help="absent: not compared")
    args = parser.parse_args()
    expected = read_csv(args.pytorch)
    labels = {name: int(pathlib.PurePath(name).stem.split("_")[1]) for name in expected}

    def accuracy(predictions):
        return 100 * sum(predictions[name] == label for name, label in labels.items()) / len(labels)

    failed = False
    print(f"{'':18} top-1 %  difference  bound  other answers")
    print(f"{'PyTorch float32':18} {accuracy(expected):7.2f}")
    for compute_type, bound in BOUNDS.items():
        if getattr(args, compute_type) is None:
            print(f"{'server ' + compute_type:18} SKIPPED")
            continue
        answers = read_json_lines(getattr(args, compute_type))
        if answers.keys() != expected.keys():
            raise SystemExit(f"{compute_type}: {len(answers)} answers for {len(expected)} images")
        difference = accuracy(answers) - accuracy(expected)
        others = sum(answers[name] != expected[name] for name in expected)
        ok = abs(difference) < bound + 1e-9
        failed |= not ok
        print(f"{'server ' + compute_type:18} {accuracy(answers):7.2f} {difference:+11.2f} {bound:6.2f} {others:14}"
              f"  {'ok' if ok else 'WRONG'}")
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
