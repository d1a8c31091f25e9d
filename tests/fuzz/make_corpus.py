#!/usr/bin/env python3
"""Writes the seeds in corpus/TARGET: small valid inputs of every kind, most from tests/golden. Needs Python 3 alone.

Files named regression-* come from the fuzzer itself and are left alone. Run again after a change of a target's input.
"""

import io
import json
import pickle
import struct
import sys
import types
import zipfile

from request_seeds import make_requests
from seed_files import HERE, golden_images, write

SEPARATOR = b"\x1e"


def clear():
    for file in HERE.glob("corpus/*/*"):
        if not file.name.startswith("regression-"):
            file.unlink()


def safetensors(entries, data=b"", metadata=None):
    """entries: (name, dtype, shape, bytes)."""
    header = {"__metadata__": metadata} if metadata else {}
    for name, dtype, shape, size in entries:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + size]}
        data += bytes(i % 251 for i in range(size))
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


def elements(shape):
    count = 1
    for n in shape:
        count *= n
    return count


def vision_shapes(gates, width=1, patch=1):
    shapes = {
        "patch_embed.proj.weight": [width, 3, patch, patch], "patch_embed.proj.bias": [width],
        "cls_token": [1, 1, width], "norm.weight": [width], "norm.bias": [width],
        "head.weight": [2, width], "head.bias": [2],
    }
    for name, shape in {
        "norm1.weight": [width], "norm1.bias": [width], "norm2.weight": [width], "norm2.bias": [width],
        "attn.qkv.weight": [3 * width, width], "attn.qkv.bias": [3 * width],
        "attn.proj.weight": [width, width], "attn.proj.bias": [width],
        "mlp.fc1.weight": [4 * width, width], "mlp.fc1.bias": [4 * width],
        "mlp.fc2.weight": [width, 4 * width], "mlp.fc2.bias": [width], **gates,
    }.items():
        shapes["blocks.0." + name] = shape
    return shapes


def text_shapes():
    shapes = {
        "bert.embeddings.word_embeddings.weight": [3, 1], "bert.embeddings.position_embeddings.weight": [2, 1],
        "bert.embeddings.token_type_embeddings.weight": [1, 1],
        "bert.embeddings.LayerNorm.weight": [1], "bert.embeddings.LayerNorm.bias": [1],
        "classifier.weight": [2, 1], "classifier.bias": [2],
        "bert.pooler.dense.weight": [1, 1], "bert.pooler.dense.bias": [1],
    }
    layer = "bert.encoder.layer.0."
    for part in ["attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
                 "intermediate.dense", "output.dense"]:
        shapes[layer + part + ".weight"], shapes[layer + part + ".bias"] = [1, 1], [1]
    for part in ["attention.output.LayerNorm", "output.LayerNorm"]:
        shapes[layer + part + ".weight"], shapes[layer + part + ".bias"] = [1], [1]
    shapes[layer + "attention.self.ai"] = [1]
    return shapes


def model_file(shapes, dtype="F32", size=4):
    return safetensors([(name, dtype, shape, size * elements(shape)) for name, shape in shapes.items()])


SELECTIVE = {"attn.a_i.weight": [1, 1], "attn.a_i.bias": [1]}
DECAY_S = {"attn.a_i": [1], "attn.a2_i": [1]}


def make_safetensors():
    types_ = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
    every = [(name.lower(), name, [2, 3], 6 * size) for name, size in types_.items()]
    write("safetensors", "types", safetensors(every, metadata={"format": "pt"}))
    write("safetensors", "empty", safetensors([]))
    write("safetensors", "scalar_and_empty", safetensors([("s", "F32", [], 4), ("e", "F16", [0, 7], 0)]))
    write("safetensors", "vision_selective", model_file(vision_shapes(SELECTIVE), "BF16", 2))
    write("safetensors", "vision_decay_s", model_file({"module." + k: v for k, v in vision_shapes(DECAY_S).items()}))
    write("safetensors", "vision_empty", model_file({k: [0] + v[1:] for k, v in vision_shapes({}).items()}))
    write("safetensors", "text_decay", model_file(text_shapes(), "F16", 2))


def make_zip():
    def archive(names, **options):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", **options) as file:
            for name in names:
                with file.open(zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0)), "w", force_zip64=name.endswith("64")) as out:
                    out.write(name.encode() * 3)
        return buffer.getvalue()

    write("zip", "stored", archive(["archive/data.pkl", "archive/data/0", "archive/version"]))
    write("zip", "zip64", archive(["a/64"]))
    write("zip", "empty", archive([]))
    write("zip", "comment", archive(["x"])[:-2] + b"\x05\x00hello")
    deflated = io.BytesIO()
    with zipfile.ZipFile(deflated, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(zipfile.ZipInfo("d", (2024, 1, 1, 0, 0, 0)), b"deflated" * 9, zipfile.ZIP_DEFLATED)
    write("zip", "deflated", deflated.getvalue())
    # The end record of a zip64 archive, as tests/model_loader/test_files.cc writes it.
    plain = archive(["z"])
    end = plain.rindex(b"PK\x05\x06")
    count, size, offset = struct.unpack("<HII", plain[end + 10:end + 20])
    record = b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, size, offset)
    locator = b"PK\x06\x07" + struct.pack("<IQI", 0, end, 1)
    tail = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    write("zip", "zip64_end", plain[:end] + record + locator + tail)


# --- Pickles as PyTorch writes them, without PyTorch: functions and classes of its names that do nothing.


def stand_ins():
    def module(name):
        made = sys.modules[name] = types.ModuleType(name)
        return made

    def function(owner, name):
        def stand_in(*_):
            raise AssertionError
        stand_in.__module__, stand_in.__qualname__ = owner.__name__, name
        setattr(owner, name, stand_in)
        return stand_in

    torch, utils, tensor = module("torch"), module("torch._utils"), module("torch._tensor")
    made = types.SimpleNamespace()
    made.rebuild = function(utils, "_rebuild_tensor_v2")
    made.parameter = function(utils, "_rebuild_parameter")
    made.from_type = function(tensor, "_rebuild_from_type_v2")
    for name in ["FloatStorage", "HalfStorage", "LongStorage", "BoolStorage", "BFloat16Storage", "DoubleStorage"]:
        setattr(torch, name, type(name, (), {"__module__": "torch", "__qualname__": name}))
    made.size = type("Size", (tuple,), {"__module__": "torch", "__qualname__": "Size"})
    torch.Size, made.torch = made.size, torch
    return made


TORCH = stand_ins()


class Storage:
    def __init__(self, kind, key, count):
        self.id = ("storage", getattr(TORCH.torch, kind), key, "cpu", count)


class Call:
    def __init__(self, function, *arguments):
        self.reduced = function, arguments

    def __reduce__(self):
        return self.reduced


class TorchPickler(pickle.Pickler):
    def persistent_id(self, value):
        return value.id if isinstance(value, Storage) else None


def torch_pickle(value, protocol=2):
    buffer = io.BytesIO()
    TorchPickler(buffer, protocol).dump(value)
    return buffer.getvalue()


def tensor(shape, kind="FloatStorage", key="0", count=64, offset=0):
    strides = [1] * len(shape)
    for i in range(len(shape) - 1, 0, -1):
        strides[i - 1] = strides[i] * shape[i]
    return Call(TORCH.rebuild, Storage(kind, key, count), offset, tuple(shape), tuple(strides), False, {})


def make_pickles():
    import argparse
    import collections

    arguments = argparse.Namespace(model="lion_tiny", input_size=8, lr=0.5, pos_emb=False, mask_type="Selective")
    state = collections.OrderedDict((name, tensor(shape)) for name, shape in vision_shapes(SELECTIVE).items())
    values = {
        "deit": {"model": state, "model_ema": {"norm.weight": tensor([1])}, "args": arguments, "epoch": 3},
        "composer": {"state": {"model": {"module." + k: tensor(v) for k, v in vision_shapes(DECAY_S).items()}}},
        "plain": {
            "norm.weight": Call(TORCH.parameter, tensor([3, 3], count=9, key="1"), False, {}),
            "half": tensor([4, 2, 4], "HalfStorage", count=128), "long": tensor([8], "LongStorage", count=32, offset=24),
            "bool": tensor([], "BoolStorage", count=256), "empty": tensor([0, 5], key="2", count=0),
            "typed": Call(TORCH.from_type, TORCH.rebuild, TORCH.size,
                          (Storage("BFloat16Storage", "1", 18), 1, TORCH.size((3, 2)), (2, 6), False, {}), None),
            "step": 7,
        },
    }
    for name, value in values.items():
        write("torch_file", name + ".pkl", torch_pickle(value))
        write("pickle", name, torch_pickle(value)[:2048])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        entries = {"data.pkl": torch_pickle(values["plain"]), "byteorder": b"little", "data/0": bytes(range(256)),
                   "data/1": bytes(range(36)), "data/2": b"", "version": b"3\n"}
        for name, data in entries.items():
            file.writestr(zipfile.ZipInfo("archive/" + name, (2024, 1, 1, 0, 0, 0)), data)
    # Without checksums, as torch.save writes it when told to: a mutation would otherwise always be found by them.
    archive = bytearray(buffer.getvalue())
    at = archive.find(b"PK\x01\x02")
    while at >= 0:
        archive[at + 16:at + 20] = bytes(4)
        at = archive.find(b"PK\x01\x02", at + 4)
    write("torch_file", "archive.pth", bytes(archive))

    data = [None, True, 1, -2, 1 << 40, 1 << 70, 0.5, "text", b"bytes", (1, 2), [3], {"k": (4, [5])}, {6}, frozenset([7])]
    for protocol in range(6):
        write("pickle", f"protocol_{protocol}", pickle.dumps(data, protocol))
    loop = []
    loop.append(loop)
    write("pickle", "loop", pickle.dumps(loop, 2))
    write("pickle", "object", pickle.dumps(arguments, 4))


def parts(*texts):
    return SEPARATOR.join(t if isinstance(t, bytes) else t.encode() for t in texts)


def vision_config(mask_type, order="Normal", pos_emb=False, **more):
    """Of the models of VisionShapes in tests/model_loader/test_files.cc."""
    return json.dumps({
        "mask_type": mask_type, "order": order, "patch_size": 4, "embed_dim": 12, "depth": 2, "num_heads": 3,
        "num_classes": 5, "cls_tok": False, "pos_emb": pos_emb, "img_size": 12, "resize": "long_side",
        "crop_ratio": 0.9, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.25, 0.25, 0.25], "normalize": True,
        "unknown": None, **more})


def text_config(arch_type, **more):
    """Of the models of TextShapes."""
    return json.dumps({
        "arch_type": arch_type, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3,
        "intermediate_size": 24, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "max_position_embeddings": 8,
        "vocab_size": 16, "type_vocab_size": 2, "position_embedding_type": "absolute", "pad_token_id": 0, **more})


def make_settings():
    names = {"id2label": {str(i): f"class {i}" for i in range(5)}}
    arguments = json.dumps({"model": "lion_tiny_patch4_12", "input_size": 12, "nb_classes": 5, "lr": 1e-3})
    modules = json.dumps([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])
    pooling = json.dumps({"word_embedding_dimension": 12, "pooling_mode_cls_token": False,
                          "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False})
    transformer = json.dumps({"max_seq_length": 8, "do_lower_case": True})
    configs = [
        vision_config("Lit", **names), vision_config("Decay", "S", **names),
        vision_config("Selective", pos_emb=True, **names), text_config("linear_attention"),
        text_config("lion-d", problem_type="regression"),
        text_config("lion-s", problem_type="single_label_classification", id2label=["a", "b", "c"])]
    for model, config in enumerate(configs):
        write("settings", f"model_{model}", bytes([model, 0x01]) + parts(
            config, arguments if model < 3 else "{}", "", "", *([modules, pooling, transformer] if model > 3 else [])))
        write("settings", f"edited_{model}", bytes([model, 0x07]) + parts(
            "{}", "{}", "", bytes([0, 0, 0, 0, 1, 1, 1, 12, 2, 2, 0, 0, 3, 3, 2, 13])))
    write("settings", "flags", bytes([0, 0x0f]) + parts("{}", "{}", "one label"))
    write("settings", "json", bytes([2, 2]) + parts(r'{"a":[1,-2,3.5e+7,true,null,"\u00e9\ud83d\ude00\n",{}],"b":{"c":[[]]}}'))

    labels = "zero\none\ntwo\nthree\nfour\n"
    vocabulary = "\n".join(f"token{i}" for i in range(16)) + "\n"
    tokenizer = json.dumps({"model": {"vocab": {f"t{i}": i for i in range(15)}}, "added_tokens": [{"id": 15, "content": "x"}]})
    index = json.dumps({"metadata": {}, "weight_map": {n: "weights.safetensors" for n in vision_shapes_of_tests()}})
    vision, text = vision_config("Selective"), text_config("lion-d")
    write("model_folder", "vision", b"\0" + parts(vision, labels))
    write("model_folder", "vision_names", b"\0" + parts(vision_config("Selective", **names)))
    write("model_folder", "vision_sharded", b"\0" + parts(vision, "", "", "", "", "", "", index))
    write("model_folder", "text", b"\1" + parts(text, "", vocabulary))
    write("model_folder", "text_tokenizer", b"\1" + parts(text, "", "", tokenizer))
    write("model_folder", "sentences", b"\1" + parts(text, "", vocabulary, "", modules, pooling, transformer))


def vision_shapes_of_tests():
    """The names of VisionShapes(Gates::kSelective) in tests/model_loader/test_files.cc: two blocks."""
    for name in vision_shapes(SELECTIVE):
        yield name
        if name.startswith("blocks.0."):
            yield "blocks.1." + name[len("blocks.0."):]


# --- Images. Each is followed by the four bytes of options that tests/fuzz/image.cc reads.


NO_RESIZE, CENTER_CROP, STRETCH, LONG_SIDE = range(4)
AS_STORED, SALVAGE, LARGE = 4, 8, 0xC0


def with_options(image, number, more=0):
    resize = [CENTER_CROP, NO_RESIZE, STRETCH, LONG_SIDE][number % 4]
    patch = [0x10, 0x00, 0x20][number % 3]
    return image + bytes([resize | patch | more, [16, 40, 9][number % 3], [223, 255, 127][number % 3], 0])


def make_images():
    skipped = ("exif_1", "exif_2", "exif_4", "exif_5", "exif_7")  # like their neighbours
    number = 0
    for name, image in sorted(golden_images()):
        if len(image) > 2500 or name.startswith(skipped) or "_big" in name or "_jpeg_3" in name or "1x1" in name:
            continue
        target = {b"\xff\xd8": "jpeg", b"\x89P": "png", b"RI": "webp"}[image[:2]]
        number += 1
        write(target, name, with_options(image, number, SALVAGE if number % 5 == 0 or name.startswith("cut") else 0))
    # Of a size at which the pixels are most of the memory: a plain colour.
    import zlib

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    for interlaced in (0, 1):
        # Filter bytes and samples, all 0: the passes of an interlaced picture have a few more rows.
        rows = zlib.compress(bytes(1000 * 2001 + (875 if interlaced else 0)), 9)
        png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1000, 1000, 16, 0, 0, 0, interlaced))
        png += chunk(b"IDAT", rows) + chunk(b"IEND", b"")
        write("png", f"large_{interlaced}", with_options(png, 1, LARGE))
        write("png", f"large_resized_{interlaced}", with_options(png, 2, LARGE | AS_STORED))

    # Lossless WebP of five prefix codes with one symbol each: no bit a pixel.
    bits = 999 | 999 << 14 | sum(0b0001 << (32 + 3 + 4 * i) for i in range(5))
    vp8l = b"\x2f" + bits.to_bytes(7, "little")
    webp = b"WEBPVP8L" + struct.pack("<I", len(vp8l)) + vp8l
    write("webp", "large", with_options(b"RIFF" + struct.pack("<I", len(webp)) + webp, 1, LARGE))

    # Progressive JPEG of 640 x 640 x 3, one scan: a code of one bit, "no difference", for every block.
    def segment(marker, data):
        return bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data

    components = b"".join(bytes([i, 0x11, 0]) for i in (1, 2, 3))
    jpeg = b"\xff\xd8" + segment(0xDB, bytes([0]) + bytes([1]) * 64)
    jpeg += segment(0xC2, struct.pack(">BHHB", 8, 640, 640, 3) + components)
    jpeg += segment(0xC4, bytes([0, 1]) + bytes(15) + bytes([0]))
    jpeg += segment(0xDA, bytes([3, 1, 0, 2, 0, 3, 0, 0, 0, 0])) + bytes(80 * 80 * 3 // 8) + b"\xff\xd9"
    write("jpeg", "large_progressive", with_options(jpeg, 1, LARGE))
    write("jpeg", "large_progressive_resized", with_options(jpeg, 2, LARGE))


def make_exif():
    def block(order, value, kind=3, tag=0x0112, marked=False):
        end = "<" if order == b"II" else ">"
        packed = struct.pack(end + "HH", value, 0) if kind == 3 else struct.pack(end + "I", value)
        head = order + struct.pack(end + "HIH", 42, 8, 2)
        other = struct.pack(end + "HHI4s", 0x010F, 2, 4, b"abc\0")
        return (b"Exif\0\0" if marked else b"") + head + other + struct.pack(end + "HHI", tag, kind, 1) + packed + bytes(4)

    write("exif", "little", block(b"II", 6))
    write("exif", "big", block(b"MM", 3))
    write("exif", "long", block(b"MM", 8, kind=4, marked=True))
    write("exif", "out_of_range", block(b"II", 9))


# --- Requests: protobuf's wire format by hand.


def make_tokenizer():
    for number, text in enumerate([
        "The naïve ÉLÈVE said: don't!", "你好world豈 각힣 ガ", "👩‍👩‍👧 a\u200bb\u00a0c\u0007d", "[MASK] x[MASK]y [CLS]",
        "a\u0301\u302e\u0344\U0001d165b \U0001d160 \u0f73", "İ ẞ ΟΔΟΣ ≠ \u037e \u2000", "a" * 101 + " " + "b" * 100,
        "first" + "\x1e" + "second text",
    ]):
        for variant in (number % 5, 5 + number % 5):
            write("tokenizer", f"text_{number}_{variant}", bytes([variant + 16 * (number % 3), 3 + number]) + text.encode())
    write("tokenizer", "no_utf8", b"\0\0ab\xed\xa0\x80")


def make_tokenizer_files():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b"]
    special = lambda name, kind: {"SpecialToken": {"id": name, "type_id": kind}}  # noqa: E731
    text = lambda name, kind: {"Sequence": {"id": name, "type_id": kind}}  # noqa: E731
    single = [special("[CLS]", 0), text("A", 0), special("[SEP]", 0)]
    tokenizer = {
        "version": "1.0", "truncation": {"max_length": 8}, "padding": None,
        "added_tokens": [{"id": 4, "content": "[MASK]", "lstrip": True, "normalized": False, "special": True}],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                       "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing", "single": single, "pair": single + [text("B", 1), special("[SEP]", 1)],
            "special_tokens": {name: {"id": name, "ids": [words.index(name)], "tokens": [name]} for name in words[2:4]}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {word: i for i, word in enumerate(words)}},
    }
    config = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True, "model_max_length": 1e30,
              "cls_token": "[CLS]", "mask_token": {"content": "[MASK]", "lstrip": True},
              "added_tokens_decoder": {"4": {"content": "[MASK]", "special": True}}, "tokenizer_class": "BertTokenizer"}
    dump = lambda value: json.dumps(value, separators=(",", ":"))  # noqa: E731
    write("tokenizer_files", "template", parts("{}", dump(tokenizer)))
    tokenizer["post_processor"] = {"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]}
    write("tokenizer_files", "bert_processing", parts(dump(config), dump(tokenizer)))
    write("tokenizer_files", "vocabulary", parts(dump(config), "", "\r\n".join(words)))


if __name__ == "__main__":
    clear()
    make_safetensors()
    make_zip()
    make_pickles()
    make_settings()
    make_tokenizer()
    make_tokenizer_files()
    make_images()
    make_exif()
    make_requests()
    files = [f for f in HERE.glob("corpus/*/*")]
    print(f"{len(files)} seeds, {sum(f.stat().st_size for f in files)} bytes")
