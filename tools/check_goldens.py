#!/usr/bin/env python3
"""Checks every form of lion_vision.py against the golden cases: check_goldens.py GOLDENS"""

import argparse
import pathlib

import torch
from torch.nn import functional as F

import lion_vision
import safetensors_file

FORMS = (lion_vision.attention_form, lion_vision.chunk_form, lion_vision.recurrent_form)
TYPES = (torch.float32, torch.float64)


def read(path):
    return {name: torch.from_numpy(array.copy()) for name, array in safetensors_file.read(path).items()}


def cases_of(expected, key):
    return range(sum(name.startswith(key + ".") for name in expected))


def relative_error(actual, expected):
    return ((actual.double() - expected).norm() / expected.double().norm()).item()


@torch.no_grad()
def mixer_error(path, form, dtype):
    expected = read(path)
    mask_type = {"lit": "Lit", "decay": "Decay", "selective": "Selective"}[path.stem.split("_")[0]]
    worst = 0
    for n in cases_of(expected, "y"):
        q, k, v, gate = (expected[f"{name}.{n}"][None].to(dtype) for name in ("q", "k", "v", "gate_logit"))
        log_lambda = F.logsigmoid(gate[..., :1]).expand_as(gate) if mask_type == "Decay" else -F.softplus(gate)
        scans = [] if mask_type == "Lit" else [(torch.arange(q.shape[2]), log_lambda)]
        y = form(*(lion_vision.feature_map(x, mask_type) for x in (q, k)), v, scans)
        worst = max(worst, relative_error(y[0], expected[f"y.{n}"]))
    return worst


@torch.no_grad()
def vision_error(folder, form, dtype):
    expected = read(folder / "expected.safetensors")
    model = lion_vision.load(folder)[0].to(dtype).use_form(form)
    worst = 0
    for n in cases_of(expected, "image"):
        tokens = model.tokens(expected[f"image.{n}"][None].to(dtype))
        results = {"tokens": tokens[0], "embedding": model.pool(tokens)[0]}
        if f"logits.{n}" in expected:
            results["logits"] = model.head(results["embedding"])
        worst = max([worst] + [relative_error(x, expected[f"{name}.{n}"]) for name, x in results.items()])
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("goldens", type=pathlib.Path)
    goldens = parser.parse_args().goldens
    # The golden tokens are stored in float32, hence the float64 bound of the encoders.
    groups = [(mixer_error, sorted(goldens.glob("mixer/*_vision.safetensors")), (1e-5, 1e-10)),
              (vision_error, sorted(p.parent for p in goldens.glob("vision/*/expected.safetensors")), (2e-5, 1e-7))]
    failed = False
    for error_of, paths, bounds in groups:
        for path in paths:
            for form in FORMS:
                errors = [error_of(path, form, dtype) for dtype in TYPES]
                slack = 10 if form is lion_vision.attention_form else 1  # see its description
                ok = errors[0] <= slack * bounds[0] and errors[1] <= bounds[1]
                failed |= not ok
                print(f"{path.stem:26} {form.__name__:15} float32 {errors[0]:.1e}  float64 {errors[1]:.1e}  "
                      f"{'ok' if ok else 'WRONG'}", flush=True)
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
