#!/usr/bin/env python3
"""Writes extra.safetensors: encoded pictures and what Pillow makes of them. Needs Pillow >= 9.4; tests need only the result.

Tensors, all uint8: file.NAME [bytes] the encoded picture; rgb.NAME [h, w, 3] the upright picture;
stored.NAME the same without turning it; salvaged.NAME what is left of a cut-off file; resize.* and checkerboard.*: below.
"""
import io
import json
import os
import random
import struct
import zlib

from PIL import Image, ImageFile, ImageOps

HERE = os.path.dirname(os.path.abspath(__file__))
tensors = {}
rng = random.Random(4)


def put(name, shape, data):
    assert len(data) == eval("*".join(map(str, shape))), name
    tensors[name] = (list(shape), bytes(data))


def put_image(name, image):
    image = image.convert("RGB")
    put(name, (image.height, image.width, 3), image.tobytes())


def put_file(name, data, upright=None):
    """`upright`: the answer where Pillow's own is not the rule (16-bit samples)."""
    put("file." + name, (len(data),), data)
    image = Image.open(io.BytesIO(data))
    put_image("rgb." + name, upright or ImageOps.exif_transpose(image) or image)
    if upright is None:
        put_image("stored." + name, Image.open(io.BytesIO(data)))


def picture(width, height, mode="RGB"):
    """Smooth colours with some noise, so that both chroma upsampling and rounding show."""
    bands = len(mode) if mode != "CMYK" else 4
    data = bytearray()
    for y in range(height):
        for x in range(width):
            for band in range(bands):
                value = (x * (5 + band) + y * (9 - 2 * band) + 40 * band) % 256
                data.append(max(0, min(255, value + rng.randrange(-12, 13))))
    return Image.frombytes(mode, (width, height), bytes(data))


def encode(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


# ---- JPEG: sampling, progressive, odd sizes, restart markers are libjpeg's; CMYK with and without Adobe's marker.
for sampling in (0, 1, 2):
    for width, height in ((1, 1), (37, 29), (16, 17)):
        put_file(f"jpeg_{sampling}_{width}x{height}",
                 encode(picture(width, height), "JPEG", quality=85, subsampling=sampling))
put_file("jpeg_progressive", encode(picture(41, 23), "JPEG", quality=80, progressive=True))
put_file("jpeg_gray", encode(picture(33, 9).convert("L"), "JPEG", quality=80))
cmyk = encode(picture(31, 18, "CMYK"), "JPEG", quality=95)
adobe = cmyk.index(b"\xff\xee\0\x0eAdobe")
put_file("jpeg_cmyk_adobe", cmyk)
put_file("jpeg_ycck_adobe", cmyk[:adobe + 15] + b"\2" + cmyk[adobe + 16:])
put_file("jpeg_cmyk_plain", cmyk[:adobe] + cmyk[adobe + 16:])
rgb_adobe = encode(picture(20, 20), "JPEG", quality=90, subsampling=0)
assert rgb_adobe[2:4] == b"\xff\xe0"
put_file("jpeg_rgb_adobe", rgb_adobe[:2] + b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\0" + rgb_adobe[20:])
with open(os.path.join(HERE, "arithmetic.jpg"), "rb") as file:  # by cjpeg -arithmetic: Pillow only reads it
    put_file("jpeg_arithmetic", file.read())

# ---- EXIF in every container and byte order.


def tiff(orientation, big, entries=1, kind=3):
    order = ">" if big else "<"
    value = struct.pack(order + ("HH" if kind == 3 else "I"), *((orientation, 0) if kind == 3 else (orientation,)))
    other = struct.pack(order + "HHI", 0x0100, 3, 1) + struct.pack(order + "HH", 7, 0)
    return ((b"MM\0*" if big else b"II*\0") + struct.pack(order + "IH", 8, entries) + other * (entries - 1)
            + struct.pack(order + "HHI", 0x0112, kind, 1) + value + b"\0\0\0\0")


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


halves = Image.new("RGB", (24, 10), (255, 0, 0))
halves.paste((0, 0, 255), (12, 0, 24, 10))
halves.paste((0, 255, 0), (0, 0, 3, 3))
plain_jpeg = encode(halves, "JPEG", quality=95)
plain_png = encode(halves, "PNG")
for orientation in range(1, 9):
    for big in (False, True):
        block = tiff(orientation, big, entries=1 + orientation % 3)
        name = f"{orientation}_{'big' if big else 'little'}"
        app1 = b"Exif\0\0" + block
        put_file("exif_jpeg_" + name,
                 plain_jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(app1) + 2) + app1 + plain_jpeg[2:])
        put_file("exif_png_" + name, plain_png[:33] + chunk(b"eXIf", block) + plain_png[33:])
        put_file("exif_webp_" + name, encode(halves, "WEBP", lossless=True, exif=block))
put_file("exif_png_after_pixels", plain_png[:-12] + chunk(b"eXIf", tiff(6, True)) + plain_png[-12:])
put_file("exif_png_long", plain_png[:33] + chunk(b"eXIf", tiff(8, True, 1, 4)) + plain_png[33:])
put_file("exif_webp_prefixed", encode(halves, "WEBP", lossless=True, exif=b"Exif\0\0" + tiff(5, False)))

# ---- PNG: every colour type and depth, plain and interlaced, from random samples.
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def pack(samples, depth):
    if depth == 16:
        return b"".join(struct.pack(">H", s) for s in samples)
    bits = "".join(format(s, f"0{depth}b") for s in samples)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


def png(width, height, kind, depth, interlaced):
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
    pixels = [[[rng.randrange(1 << depth) for _ in range(channels)] for _ in range(width)] for _ in range(height)]
    palette = bytes(rng.randrange(256) for _ in range(3 << depth)) if kind == 3 else b""
    raw = b""
    for x0, y0, dx, dy in ADAM7 if interlaced else ((0, 0, 1, 1),):
        for row in pixels[y0::dy]:
            if row[x0::dx]:
                raw += b"\0" + pack([s for pixel in row[x0::dx] for s in pixel], depth)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced))
    if palette:
        data += chunk(b"PLTE", palette) + chunk(b"tRNS", bytes(rng.randrange(256) for _ in range(1 << depth)))
    data += chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")

    def eight_bits(sample):
        return sample >> 8 if depth == 16 else sample * 255 // ((1 << depth) - 1)

    rgb = bytearray()
    for row in pixels:
        for pixel in row:
            if kind == 3:
                rgb += palette[pixel[0] * 3:pixel[0] * 3 + 3]
            elif kind in (0, 4):
                rgb += bytes([eight_bits(pixel[0])] * 3)
            else:
                rgb += bytes(eight_bits(s) for s in pixel[:3])
    image = Image.frombytes("RGB", (width, height), bytes(rgb))
    if not (kind == 0 and depth == 16):  # there Pillow's convert("RGB") clips instead of taking the high byte
        assert Image.open(io.BytesIO(data)).convert("RGB").tobytes() == bytes(rgb), (kind, depth, interlaced)
    return data, image


for kind, depths in ((0, (1, 2, 4, 8, 16)), (2, (8, 16)), (3, (1, 2, 4, 8)), (4, (8, 16)), (6, (8, 16))):
    for depth in depths:
        for interlaced in (0, 1):
            data, image = png(13, 11, kind, depth, interlaced)
            put_file(f"png_{kind}_{depth}{'_interlaced' if interlaced else ''}", data, image)
data, image = png(2, 1, 6, 8, 1)
put_file("png_interlaced_empty_passes", data, image)
frames = [picture(17, 12) for _ in range(3)]
put_file("png_animated", encode(frames[0], "PNG", save_all=True, append_images=frames[1:]))

# ---- WebP: alpha is dropped and not blended; animations give their first frame on a black canvas.
put_file("webp_lossy_alpha", encode(picture(33, 21, "RGBA"), "WEBP", quality=80))
put_file("webp_lossless_alpha", encode(picture(33, 21, "RGBA"), "WEBP", lossless=True, exact=True))
put_file("webp_animated", encode(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True))


def riff(kind, data):
    return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) & 1)


def u24(value):
    return struct.pack("<I", value)[:3]


still = encode(picture(10, 6), "WEBP", lossless=True)[12:]
anmf = u24(4 // 2) + u24(2 // 2) + u24(9) + u24(5) + u24(100) + b"\0" + still
body = (b"WEBP" + riff(b"VP8X", b"\x02\0\0\0" + u24(19) + u24(11)) + riff(b"ANIM", b"\xff\xff\xff\xff\0\0")
        + riff(b"ANMF", anmf))
put_file("webp_animated_offset", b"RIFF" + struct.pack("<I", len(body)) + body)

# ---- Cut-off files, decoded as far as they go.
ImageFile.LOAD_TRUNCATED_IMAGES = True
for name, data in (("jpeg", encode(picture(64, 48), "JPEG", quality=90)),
                   ("jpeg_progressive", encode(picture(64, 48), "JPEG", quality=90, progressive=True)),
                   ("png", encode(picture(64, 48), "PNG"))):
    for percent in (60, 90):
        cut = data[:len(data) * percent // 100]
        put(f"file.cut_{name}_{percent}", (len(cut),), cut)
        put_image(f"salvaged.cut_{name}_{percent}", Image.open(io.BytesIO(cut)))
ImageFile.LOAD_TRUNCATED_IMAGES = False

# ---- Resizing. resize.WIDTH.HEIGHT.TO_WIDTH.TO_HEIGHT.LEFT.TOP.PART_WIDTH.PART_HEIGHT of the picture whose sample c at
# (x, y) is pattern(x, y, c).


def pattern(x, y, c):
    return ((x * x * 7 + y * y * 13 + x * y * (3 + c)) >> 4) & 255


def checkerboard(x, y, c):
    return 255 * ((x ^ y) & 1)


def resize(kind, width, height, to_width, to_height, left, top, part_width, part_height):
    samples = bytes(kind(x, y, c) for y in range(height) for x in range(width) for c in range(3))
    image = Image.frombytes("RGB", (width, height), samples).resize((to_width, to_height), Image.BICUBIC)
    image = image.crop((left, top, left + part_width, top + part_height))
    name = {pattern: "resize", checkerboard: "checkerboard"}[kind]
    put_image(f"{name}.{width}.{height}.{to_width}.{to_height}.{left}.{top}.{part_width}.{part_height}", image)


for case in ((1, 1, 7, 5, 0, 0, 7, 5), (2, 3, 31, 17, 3, 4, 20, 9), (5, 100, 40, 40, 0, 0, 40, 40),
             (300, 3, 33, 50, 1, 2, 30, 40), (97, 61, 48, 30, 7, 5, 32, 16), (64, 64, 63, 64, 0, 0, 63, 64),
             (64, 64, 64, 65, 10, 20, 30, 45), (640, 480, 16, 12, 0, 0, 16, 12), (33, 47, 33, 47, 5, 6, 16, 32),
             (1, 500, 20, 10000, 2, 4990, 16, 16), (500, 1, 10000, 20, 4990, 2, 16, 16), (31, 33, 90, 95, 13, 17, 64, 64)):
    resize(pattern, *case)
resize(pattern, 4096, 4096, 256, 256, 16, 16, 224, 224)
resize(checkerboard, 4096, 4096, 256, 256, 16, 16, 224, 224)

header, at = {}, 0
for name, (shape, data) in tensors.items():
    header[name] = {"dtype": "U8", "shape": shape, "data_offsets": [at, at + len(data)]}
    at += len(data)
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(os.path.join(HERE, "extra.safetensors"), "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values()))
