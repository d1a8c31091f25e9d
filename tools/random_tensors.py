"""Random tensors as bytes, with nothing but Python's standard library: as fast as a disk takes them.

Every tensor is cut, at a place of its own, from one long ring of normal values, scaled. The ring's length is prime, so
that rows of a matrix never coincide. The same seed gives the same bytes.
"""

import array
import dataclasses
import functools
import math
import random
import struct
import sys

RING = 65537
BYTES = {"f32": 4, "f16": 2, "bf16": 2, "i64": 8}


def to_bytes(values, dtype):
    """Little-endian; bf16 is rounded to nearest even, as PyTorch does."""
    if dtype == "f16":
        return struct.pack(f"<{len(values)}e", *values)
    if dtype == "i64":
        return struct.pack(f"<{len(values)}q", *values)
    numbers = array.array("f", values)
    if dtype == "bf16":
        bits = array.array("I", numbers.tobytes())
        numbers = array.array("H", [(word + 0x7FFF + (word >> 16 & 1)) >> 16 for word in bits])
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


@functools.lru_cache(maxsize=2)
def normal_ring(seed):
    """Box-Muller on the one generator whose numbers Python promises to keep."""
    uniform = random.Random(seed).random
    ring = []
    while len(ring) < RING:
        radius, angle = math.sqrt(-2 * math.log(1 - uniform())), 2 * math.pi * uniform()
        ring += [radius * math.cos(angle), radius * math.sin(angle)]
    return ring[:RING]


@functools.lru_cache(maxsize=64)
def scaled_ring(seed, std, mean, dtype):
    return to_bytes([mean + std * value for value in normal_ring(seed)], dtype)


@dataclasses.dataclass(frozen=True)
class Tensor:
    """Shape and type, and how to make its bytes when they are written; an instance itself is small."""
    shape: tuple
    dtype: str
    make: callable = dataclasses.field(repr=False)

    @property
    def elements(self):
        return math.prod(self.shape)

    @property
    def size(self):  # bytes
        return self.elements * BYTES[self.dtype]

    def bytes(self):
        return self.make()


class TensorMaker:
    """Makes the tensors of one checkpoint; the order in which they are asked for matters to what they hold."""

    def __init__(self, seed, dtype):
        self.seed, self.dtype = seed, dtype
        self.places = random.Random(f"places {seed}")

    def normal(self, *shape, std, mean=0.0):
        start = int(self.places.random() * RING)
        width = BYTES[self.dtype]
        size = math.prod(shape) * width

        def make():
            ring = scaled_ring(self.seed, std, mean, self.dtype)
            first = ring[start * width:start * width + size]
            turns, rest = divmod(size - len(first), len(ring))
            return b"".join([first, ring * turns, ring[:rest]])

        return Tensor(shape, self.dtype, make)

    def values(self, values, dtype=None, shape=None):
        dtype = dtype or self.dtype
        return Tensor(shape or (len(values),), dtype, lambda: to_bytes(values, dtype))
