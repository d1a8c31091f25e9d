"""From what Python programs hold to lion.v1.Input."""

from __future__ import annotations

import os
import struct
import sys
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Iterable, List, Sequence, Tuple, Union

import numpy as np

from . import lion_pb2

if TYPE_CHECKING:
    from PIL.Image import Image

_LARGEST_FILE_BYTES = 2_000_000_000  # what a protobuf message can hold
_PNG_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # by channels: gray, gray and alpha, RGB, RGBA


@dataclass(frozen=True)
class TextPair:
    """Two texts that are one input. A tuple of two str is the same."""

    first: str
    second: str


@dataclass(frozen=True)
class TokenIds:
    """The tokens of one text, special tokens included, no padding. type_ids: as many, or none: all 0."""

    ids: Sequence[int]
    type_ids: Sequence[int] = ()


@dataclass(frozen=True)
class Pixels:
    """A picture exactly as the model is to see it, RGB [3, height, width]: float32, already normalised, or uint8, which
    the server normalises. Nothing is resized or cropped."""

    array: np.ndarray[Any, Any]


# str: a text. bytes: an encoded JPEG, PNG or WebP file. A path (pathlib.Path): such a file. PIL image, and array of
# uint8, [height, width] or [height, width, channels] with 1 to 4 channels (gray, RGB, each with or without alpha): a
# picture, which the server resizes as it does files.
InputLike = Union[str, Tuple[str, str], TextPair, TokenIds, bytes, "os.PathLike[str]", "np.ndarray[Any, Any]", "Image",
                  Pixels, lion_pb2.Input]


def to_inputs(values: Iterable[InputLike]) -> List[lion_pb2.Input]:
    """TypeError: not a list of inputs. Otherwise as to_input, with the number of the input in the message."""
    if isinstance(values, (str, bytes, os.PathLike, TextPair, TokenIds, Pixels, np.ndarray, lion_pb2.Input)):
        raise TypeError(f"a {type(values).__name__} where a list of inputs is expected; [x] is a list of one")
    inputs = []
    for index, value in enumerate(values):
        try:
            inputs.append(to_input(value))
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"input {index}: {error}") from error
    return inputs


def to_input(value: InputLike) -> lion_pb2.Input:
    """Reads the file that a path names. TypeError: nothing that is an input; ValueError: an array that is no picture;
    OSError: a file that cannot be read."""
    if isinstance(value, str):
        return lion_pb2.Input(text=value)
    if isinstance(value, TextPair):
        return lion_pb2.Input(text_pair=lion_pb2.TextPair(first=value.first, second=value.second))
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(text, str) for text in value):
        return lion_pb2.Input(text_pair=lion_pb2.TextPair(first=value[0], second=value[1]))
    if isinstance(value, TokenIds):
        return lion_pb2.Input(tokens=lion_pb2.TokenIds(ids=list(value.ids), type_ids=list(value.type_ids)))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return lion_pb2.Input(image=bytes(value))
    if isinstance(value, os.PathLike):
        return lion_pb2.Input(image=_read(value))
    if isinstance(value, np.ndarray):
        return lion_pb2.Input(image=png_of(value))
    if isinstance(value, Pixels):
        return lion_pb2.Input(pixels=_pixel_tensor(value.array))
    if isinstance(value, lion_pb2.Input):
        return value
    if _is_pil_image(value):
        return lion_pb2.Input(image=png_of(_array_of(value)))
    raise TypeError(f"{type(value).__name__} is no input; expected a text (str), two texts (a tuple), TokenIds, a path "
                    "(pathlib.Path), bytes of a file, an array, a PIL image or Pixels")


def size_of(value: InputLike) -> int:
    """About how many bytes the input will have, without reading its file."""
    if isinstance(value, os.PathLike):
        try:
            return os.stat(value).st_size
        except OSError:
            return 0  # its error comes when it is read
    if isinstance(value, (np.ndarray, Pixels)):
        return int((value.array if isinstance(value, Pixels) else value).nbytes)
    if isinstance(value, (str, bytes)):
        return len(value)
    if _is_pil_image(value):
        return 3 * int(value.width) * int(value.height)  # type: ignore[union-attr]
    try:
        return to_input(value).ByteSize()
    except ValueError:
        return 0  # as above


def is_text(value: InputLike) -> bool:
    if isinstance(value, lion_pb2.Input):
        return value.WhichOneof("value") in ("text", "text_pair", "tokens")
    return isinstance(value, (str, tuple, TextPair, TokenIds))


def png_of(array: np.ndarray[Any, Any]) -> bytes:
    """A PNG of exactly these values: [height, width] or [height, width, 1 to 4 channels], uint8."""
    shaped = array[:, :, None] if array.ndim == 2 else array
    if array.dtype != np.uint8 or shaped.ndim != 3 or shaped.shape[2] not in _PNG_COLOUR_TYPES or not array.size:
        raise ValueError(f"an array of {array.dtype} {list(array.shape)} is no picture; expected uint8 [height, width] "
                         "or [height, width, 1 to 4 channels] (Pixels takes [3, height, width])")
    height, width, channels = shaped.shape
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # each begins with its filter: none
    rows[:, 1:] = shaped.reshape(height, -1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, _PNG_COLOUR_TYPES[channels], 0, 0, 0)
    return b"".join((b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows.tobytes(), 1)),
                     chunk(b"IEND", b"")))


def _read(path: os.PathLike[str]) -> bytes:
    with open(path, "rb") as file:
        content = file.read(_LARGEST_FILE_BYTES + 1)
    if len(content) > _LARGEST_FILE_BYTES:
        raise ValueError(f"{os.fspath(path)} has more than {_LARGEST_FILE_BYTES} bytes")
    return content


def _pixel_tensor(array: np.ndarray[Any, Any]) -> lion_pb2.PixelTensor:
    if array.ndim != 3 or array.shape[0] != 3 or array.dtype not in (np.float32, np.uint8):
        raise ValueError(f"Pixels of {array.dtype} {list(array.shape)}; expected float32 or uint8 [3, height, width]")
    little_endian = array.astype(array.dtype.newbyteorder("<"), copy=False)
    kind = lion_pb2.PixelTensor.TYPE_UINT8 if array.dtype == np.uint8 else lion_pb2.PixelTensor.TYPE_FLOAT32
    return lion_pb2.PixelTensor(height=array.shape[1], width=array.shape[2], data=little_endian.tobytes(), type=kind)


def _is_pil_image(value: Any) -> bool:
    pil = sys.modules.get("PIL.Image")  # nobody has such an image who has not imported it
    return pil is not None and isinstance(value, pil.Image)


def _array_of(image: Any) -> np.ndarray[Any, Any]:
    """Upright, as the server turns files."""
    from PIL import ImageOps
    if image.mode in ("I", "F") or image.mode.startswith("I;"):
        raise ValueError(f"a PIL image of mode {image.mode} has more than 8 bits a channel; expected 8, or its file")
    upright = ImageOps.exif_transpose(image)
    return np.asarray(upright if upright.mode in ("L", "RGB") else upright.convert("RGB"))
