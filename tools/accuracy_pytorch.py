#!/usr/bin/env python3
"""Classifies a folder of PNGs named NUMBER_LABEL.png with PyTorch in float32, and writes a CSV: file,predicted"""

import argparse
import csv
import pathlib

import numpy
import torch
from PIL import Image

import lion_vision


def read(path, config):
    """Only for models whose images already have the right size: this is no second preprocessing pipeline."""
    pixels = numpy.asarray(Image.open(path).convert("RGB"), numpy.float32)
    if pixels.shape[:2] != (config["img_size"],) * 2:
        raise SystemExit(f"{path} is not {config['img_size']} x {config['img_size']}")
    mean, std = (numpy.array(config[key], numpy.float32) for key in ("image_mean", "image_std"))
    return torch.from_numpy(((pixels / numpy.float32(255) - mean) / std).transpose(2, 0, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("images", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--form", choices=("attention", "chunk", "recurrent"), default="attention")
    args = parser.parse_args()
    model, config = lion_vision.load(args.model)
    model.use_form(getattr(lion_vision, f"{args.form}_form"))
    paths = sorted(args.images.glob("*.png"))
    predicted = []
    with torch.no_grad():
        for start in range(0, len(paths), 500):
            batch = torch.stack([read(path, config) for path in paths[start:start + 500]])
            predicted += model(batch).argmax(1).tolist()
    with open(args.output, "w", newline="") as file:
        csv.writer(file).writerows([("file", "predicted"), *((p.name, n) for p, n in zip(paths, predicted))])
    right = sum(path.stem.split("_")[1] == str(n) for path, n in zip(paths, predicted))
    print(f"PyTorch float32, {args.form} form: {right} of {len(paths)} right, {100 * right / len(paths):.2f} %")


if __name__ == "__main__":
    main()
