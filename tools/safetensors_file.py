"""Reads .safetensors files with NumPy alone."""

import json

import numpy

TYPES = {"F16": numpy.float16, "F32": numpy.float32, "F64": numpy.float64, "I64": numpy.int64}


def read(path):
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    data = numpy.memmap(path, numpy.uint8, "c", 8 + size)
    return {name: data[slice(*entry["data_offsets"])].view(TYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items()}

