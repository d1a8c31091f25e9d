"""Where seeds are written, and the images that several of them are made of."""

import json
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"


def write(target, name, data):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def golden_images():
    blob = (GOLDEN / "images_extra" / "extra.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", blob[:8])
    for name, entry in json.loads(blob[8:8 + size]).items():
        if name.startswith("file."):
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            yield name[len("file."):], blob[begin:end]
    for file in GOLDEN.glob("images/*"):
        if file.suffix != ".safetensors" and file.stat().st_size < 2000:
            yield file.stem, file.read_bytes()
