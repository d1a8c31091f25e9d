#!/usr/bin/env python3
"""Writes MNIST's 10,000 test digits as PNGs, the label in the name: 00000_7.png"""

import argparse
import pathlib

from PIL import Image

import mnist


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--mnist", default=mnist.DEFAULT_FOLDER, help="folder of the IDX files")
    parser.add_argument("--one-of-each", action="store_true", help="only the first digit of each class, as 7.png")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    images, labels = mnist.load(args.mnist, "t10k")
    if args.one_of_each:
        numbered = {f"{digit}.png": (labels == digit).argmax() for digit in range(10)}
    else:
        numbered = {f"{n:05}_{label}.png": n for n, label in enumerate(labels)}
    for name, n in numbered.items():
        Image.fromarray(images[n]).save(args.output / name)


if __name__ == "__main__":
    main()
