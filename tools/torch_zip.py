"""Writes files as torch.save does (a zip of a pickle and raw storages), with Python's standard library alone."""

import argparse
import struct
import zipfile
from typing import NamedTuple

STORAGES = {"f32": "FloatStorage", "f16": "HalfStorage", "bf16": "BFloat16Storage", "i64": "LongStorage"}
ALIGNMENT = 64  # of a storage in the file


class Global(NamedTuple):
    module: str
    name: str


class Call(NamedTuple):
    function: Global
    arguments: tuple
    state: dict = None  # what the object's __dict__ holds


class Persistent(NamedTuple):
    identity: tuple


def pickled(value):
    return b"\x80\x02" + _pickled(value) + b"."


def _pickled(value):
    """Protocol 2, the one torch.save uses."""
    if value is None:
        return b"N"
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value) if value < 2**31 else b"\x8a\x08" + struct.pack("<q", value)
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    if isinstance(value, str):
        text = value.encode()
        return b"X" + struct.pack("<I", len(text)) + text
    if isinstance(value, Global):
        return f"c{value.module}\n{value.name}\n".encode()
    if isinstance(value, Call):
        state = b"" if value.state is None else _pickled(value.state) + b"b"
        return _pickled(value.function) + _pickled(value.arguments) + b"R" + state
    if isinstance(value, Persistent):
        return _pickled(value.identity) + b"Q"
    if isinstance(value, tuple):
        return b"(" + b"".join(map(_pickled, value)) + b"t"
    if isinstance(value, dict):
        return b"}(" + b"".join(_pickled(key) + _pickled(item) for key, item in value.items()) + b"u"
    if isinstance(value, argparse.Namespace):
        return _pickled(Call(Global("argparse", "Namespace"), (), vars(value)))
    raise TypeError(f"cannot pickle {type(value)}")


def _row_major(shape):
    strides, step = [], 1
    for side in reversed(shape):
        strides.insert(0, step)
        step *= side
    return tuple(strides)


class _Storages:
    def __init__(self):
        self.tensors = []

    def rebuild(self, tensor):
        """What torch.load calls to make the tensor, a storage of its own."""
        key = str(len(self.tensors))
        self.tensors.append(tensor)
        storage = Persistent(("storage", Global("torch", STORAGES[tensor.dtype]), key, "cpu", tensor.elements))
        no_hooks = Call(Global("collections", "OrderedDict"), ())
        return Call(Global("torch._utils", "_rebuild_tensor_v2"),
                    (storage, 0, tensor.shape, _row_major(tensor.shape), False, no_hooks))


def save(path, root):
    """`root`: dicts, strings, numbers, Namespaces and random_tensors.Tensor in any nesting of dicts."""
    storages = _Storages()

    def replace(value):
        if isinstance(value, dict):
            return {key: replace(item) for key, item in value.items()}
        return storages.rebuild(value) if hasattr(value, "dtype") else value

    pickle = pickled(replace(root))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        def add(name, data):
            entry = zipfile.ZipInfo(f"{path.stem}/{name}")
            data_at = archive.fp.tell() + 30 + len(entry.filename) + 4
            padding = -data_at % ALIGNMENT
            entry.extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding
            archive.writestr(entry, data)

        add("data.pkl", pickle)
        add("byteorder", b"little")
        for key, tensor in enumerate(storages.tensors):
            add(f"data/{key}", tensor.bytes())
        add("version", b"3\n")
