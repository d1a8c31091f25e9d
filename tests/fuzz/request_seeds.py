"""Seeds of the targets that take protobuf requests: request and rpc."""

import struct

from seed_files import golden_images, write


def varint(value):
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def real(field, value):
    return varint(field << 3 | 5) + struct.pack("<f", value)


def text(field, value):
    data = value if isinstance(value, bytes) else value.encode()
    return varint(field << 3 | 2) + varint(len(data)) + data


def make_infer_requests(png):
    """Of the Open Inference Protocol, to the model of images (call 0x10) or of texts (0x18)."""
    def tensor(name, datatype, shape, more=b""):
        return text(5, text(1, name) + text(2, datatype) + text(3, b"".join(map(varint, shape))) + more)

    def elements(*values):
        return b"".join(struct.pack("<I", len(value)) + value for value in values)

    def parameter(key, value):
        return text(4, text(1, key) + text(2, value))

    ids = struct.pack("<4q", 2, 5, 0, 3)
    mask = struct.pack("<4q", 1, 1, 0, 1)
    classes = text(6, text(1, "logits") + text(2, text(1, "classification") + text(2, number(2, 2))))
    options = parameter("pooling", text(3, "none")) + parameter("normalize", number(1, 1)) + parameter("dimensions", number(2, 3))
    for name, call, data in (
            ("image", 0x10, tensor("image", "BYTES", [1]) + text(7, elements(png)) + text(3, "id") + options),
            ("pixels", 0x10, tensor("pixels", "UINT8", [1, 3, 8, 8]) + text(7, bytes(192)) + classes),
            ("contents", 0x10, tensor("pixels", "UINT8", [1, 3, 8, 8], text(5, text(4, bytes(range(64)) * 3)))),
            ("texts", 0x18, tensor("text", "BYTES", [2, 1]) + text(7, elements(b"a b", b"lion")) + parameter("truncate", text(3, "END"))),
            ("masks", 0x18, tensor("text", "BYTES", [1]) + text(7, elements(b"[MASK]")) + text(6, text(1, "tokens"))),
            ("ids", 0x18, tensor("input_ids", "INT64", [2, 2]) + tensor("attention_mask", "INT64", [2, 2]) + text(7, ids)
             + text(7, mask)),
            ("bad_shape", 0x18, tensor("text", "BYTES", [1 << 62, 4]) + text(7, elements(b"a")))):
        write("rpc", "infer_" + name, text(1, "puppet") + data + bytes([call]))


def make_requests():
    images = dict(golden_images())
    png, jpeg, webp = images["exif_png_6_little"], images["jpeg_gray"], images["exif_webp_3_little"]

    def image(data):
        return text(2, text(1, data))

    def pixels(height, width, kind, size=None):
        data = bytes(range(256)) * 20
        size = 3 * height * width * (1 if kind else 4) if size is None else size
        return text(2, text(2, number(1, height) + number(2, width) + text(3, data[:size]) + number(4, kind)))

    def options(resize, side=0, ratio=0.0, partial=1, truncated=0, more=b""):
        image_options = number(1, resize) + number(2, side) + number(3, 1) + real(4, ratio) + number(5, truncated)
        return text(3, number(2, 9) + number(3, partial) + text(4, image_options) + more)

    inputs = {
        "png": image(png) + options(4), "jpeg": image(jpeg) + options(1, 16, 0.875, partial=0),
        "webp": image(webp) + options(2, 24), "long_side": image(png) + image(jpeg) + options(3, 32),
        "pixels": pixels(16, 16, 1) + pixels(8, 8, 0), "bad_pixels": pixels(16, 9, 0, 10) + options(0),
        "others": text(2, text(3, "text")) + text(2, text(4, text(1, "a"))) + text(2, text(5, text(1, b"\1\2"))) + text(2, b"")
                  + options(0), "cut": image(png[:100]) + options(4, truncated=1), "timeout": image(png) + text(3, number(5, 1)),
        "empty": b"",
    }
    embed = text(1, "puppet") + number(5, 1) + number(6, 3) + text(7, "id-1") + number(8, 1)
    rows = number(4, 6) + number(5, 0)
    classify = number(4, 2) + number(5, 1) + text(6, "id-2")
    for name, data in inputs.items():
        write("request", "embed_" + name, data + (embed if len(data) % 2 else rows) + b"\0")
        write("request", "classify_" + name, data + classify + b"\1")
        write("rpc", "embed_" + name, data + embed + b"\0")
        write("rpc", "classify_" + name, data + classify + b"\1")
    for call, name in ((6, "embed"), (7, "classify")):
        messages = [inputs["png"], inputs["pixels"], b"\xff", b"", inputs["bad_pixels"], inputs["timeout"]]
        write("rpc", name + "_stream", b"\x1e\x1e".join(messages) + bytes([call]))
    make_infer_requests(png)
    write("rpc", "list", b"\2")
    write("rpc", "get", text(1, "puppet") + b"\3")
    write("rpc", "get_unknown", text(1, "nobody") + b"\3")
    write("rpc", "get_not_utf8", text(1, b"\xff\xfe") + b"\3")
    make_texts(embed, classify)


# To the model of texts: 2 in the last byte of a request, 8 of a call's.
def make_texts(embed, classify):
    def ids(*values, types=()):
        packed = text(1, b"".join(varint(value) for value in values))
        return text(2, text(5, packed + (text(2, b"".join(varint(value) for value in types)) if types else b"")))

    inputs = {
        "text": text(2, text(3, "Lions a.b \u00e9 [MASK]")) + text(2, text(3, " \u200b")),
        "pair": text(2, text(4, text(1, "lion") + text(2, "ab"))) + text(2, text(4, text(2, "b"))) + text(3, number(3, 1)),
        "ids": ids(2, 5, 3) + ids(2, 199, types=(0, 1)) + ids(2, 89, 3),
        "bad_ids": ids() + ids(200) + ids(2**63) + ids(2**64 - 1) + ids(2, 3, types=(1,)) + text(3, number(3, 1)),
        "long": text(2, text(3, "." * 1500)) + ids(*[5] * 1100) + text(3, number(1, 2) + number(3, 1)),
        "mask_ids": ids(2, 4, 4, 3), "truncated_start": text(2, text(3, "a " * 400)) + text(3, number(1, 3)),
    }
    for name, data in inputs.items():
        write("request", "embed_" + name, data + embed + b"\2")
        write("request", "classify_" + name, data + classify + b"\3")
        write("rpc", "embed_" + name, data + embed + b"\x08")
        write("rpc", "fill_mask_" + name, data + number(4, 3) + text(5, "id-3") + b"\x0c")
        write("rpc", "tokenize_" + name, data + b"\x0d")
    write("rpc", "tokenize_bare", inputs["pair"] + number(3, 1) + number(4, 1) + b"\x0d")
    write("rpc", "embed_stream_of_texts", b"\x1e\x1e".join(inputs[name] for name in sorted(inputs)) + b"\x0e")
    write("rpc", "fill_mask", text(2, text(3, "a [MASK]")) + b"\4")
    write("rpc", "tokenize", text(2, text(3, "a b")) + b"\5")
