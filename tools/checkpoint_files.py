"""The files of docs/mathematics.md, section 5: one function for each way in which checkpoints are kept."""

import argparse
import json

import torch_zip

SAFETENSORS_TYPES = {"f32": "F32", "f16": "F16", "bf16": "BF16", "i64": "I64"}


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def write_safetensors(path, tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": SAFETENSORS_TYPES[tensor.dtype], "shape": tensor.shape,
                        "data_offsets": [offset, offset + tensor.size]}
        offset += tensor.size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(tensor.bytes())


def write_shards(folder, stem, extension, write, tensors, count):
    """STEM-00001-of-00002.EXTENSION and so on, of about equal size, and their index; one file for a count of 1."""
    if count == 1:
        return write(folder / f"{stem}.{extension}", tensors)
    total, done, shards = sum(tensor.size for tensor in tensors.values()), 0, [{} for _ in range(count)]
    for name, tensor in tensors.items():
        shards[done * count // total][name] = tensor
        done += tensor.size
    if not all(shards):
        raise SystemExit(f"make_model.py: too few tensors for {count} shards")
    weight_map = {}
    for number, shard in enumerate(shards, 1):
        name = f"{stem}-{number:05}-of-{count:05}.{extension}"
        write(folder / name, shard)
        weight_map.update(dict.fromkeys(shard, name))
    write_json(folder / f"{stem}.{extension}.index.json", {"metadata": {"total_size": total}, "weight_map": weight_map})


def write_deit(path, tensors, average, arguments):
    """As DeiT-style training saves: weights, perhaps their average, what resuming needs, the command line."""
    content = {"model": tensors, "optimizer": {}, "lr_scheduler": {}, "epoch": 0}
    if average is not None:
        content["model_ema"] = average
    torch_zip.save(path, {**content, "scaler": {}, "args": argparse.Namespace(**arguments)})


def write_composer(path, tensors):
    """As MosaicML Composer saves: the names are those of a model that holds the encoder as `model`."""
    model = {f"model.{name}": tensor for name, tensor in tensors.items()}
    torch_zip.save(path, {"state": {"model": model, "optimizers": {}, "run_name": "random"}, "rng": {}})
