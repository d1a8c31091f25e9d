"""Reads and writes .safetensors files with NumPy alone."""

import json

import numpy

TYPES = {"F16": numpy.float16, "F32": numpy.float32, "F64": numpy.float64}
NAMES = {numpy.dtype(dtype): name for name, dtype in TYPES.items()}


def read(path):
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    data = numpy.memmap(path, numpy.uint8, "c", 8 + size)
    return {name: data[slice(*entry["data_offsets"])].view(TYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items()}


def write(path, tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": tensor.shape,
                        "data_offsets": [offset, offset + tensor.nbytes]}
        offset += tensor.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(numpy.ascontiguousarray(tensor).data)
