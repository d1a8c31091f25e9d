"""Reads MNIST's IDX files."""

import gzip
import pathlib

import numpy

DEFAULT_FOLDER = pathlib.Path(__file__).resolve().parents[2] / "shared" / "data" / "mnist"


def load(folder, split):
    """split: "train" or "t10k". Returns images [N, 28, 28] and labels [N], both uint8."""
    folder = pathlib.Path(folder)
    with gzip.open(folder / f"{split}-images-idx3-ubyte.gz") as file:
        images = numpy.frombuffer(file.read(), numpy.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(folder / f"{split}-labels-idx1-ubyte.gz") as file:
        labels = numpy.frombuffer(file.read(), numpy.uint8, offset=8)
    return images, labels
