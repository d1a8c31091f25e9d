"""What becomes of texts, tokens and pictures before they are sent."""

import pathlib
import struct
import tempfile
import unittest
import zlib

import numpy as np

from lion_client import Pixels, TextPair, TokenIds
from lion_client import lion_pb2 as pb
from lion_client.bulk import BulkOptions, Grouping
from lion_client.inputs import png_of, size_of, to_input, to_inputs


def pixels_of(png):
    """[height, width, channels] of a PNG with unfiltered rows of 8 bits; checks every chunk."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at:at + 4])
        kind, data = png[at + 4:at + 8], png[at + 8:at + 8 + length]
        assert struct.unpack(">I", png[at + 8 + length:at + 12 + length])[0] == zlib.crc32(kind + data)
        chunks[kind] = data
        at += 12 + length
    width, height, depth, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert depth == 8 and list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[colour]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + width * channels)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, channels)


class InputsTest(unittest.TestCase):
    def test_texts_pairs_and_tokens(self):
        self.assertEqual(to_input("a"), pb.Input(text="a"))
        pair = pb.Input(text_pair=pb.TextPair(first="a", second="b"))
        self.assertEqual([to_input(("a", "b")), to_input(TextPair("a", "b"))], [pair, pair])
        self.assertEqual(to_input(TokenIds(np.array([5, 7]), [0, 1])),
                         pb.Input(tokens=pb.TokenIds(ids=[5, 7], type_ids=[0, 1])))

    def test_files_are_sent_as_they_are(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "a.jpg")
            path.write_bytes(b"\xff\xd8 not decoded here")
            self.assertEqual(to_input(path), pb.Input(image=path.read_bytes()))
            self.assertEqual(to_input(path.read_bytes()), to_input(path))
            self.assertEqual(size_of(path), 19)
        with self.assertRaises(FileNotFoundError):
            to_input(path)

    def test_arrays_become_lossless_files(self):
        random = np.random.default_rng(1)
        for shape in ((1, 1), (5, 7), (5, 7, 1), (4, 3, 2), (6, 5, 3), (2, 9, 4)):
            array = random.integers(0, 256, shape).astype(np.uint8)
            np.testing.assert_array_equal(pixels_of(png_of(array)), array.reshape(*shape[:2], -1))
        transposed = random.integers(0, 256, (3, 6, 5)).astype(np.uint8).transpose(1, 2, 0)
        np.testing.assert_array_equal(pixels_of(png_of(transposed)), transposed)

    def test_pixels_are_sent_as_the_model_sees_them(self):
        image = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
        tensor = to_input(Pixels(image)).pixels
        self.assertEqual((tensor.height, tensor.width, tensor.type), (2, 4, pb.PixelTensor.TYPE_FLOAT32))
        np.testing.assert_array_equal(np.frombuffer(tensor.data, "<f4").reshape(3, 2, 4), image)
        tensor = to_input(Pixels(image.astype(np.uint8))).pixels
        self.assertEqual((tensor.type, tensor.data), (pb.PixelTensor.TYPE_UINT8, bytes(range(24))))

    def test_what_is_no_picture_is_told_with_found_and_expected(self):
        for array in (np.zeros((3, 4)), *(np.zeros(shape, np.uint8) for shape in ((2, 3, 5), (4,), (0, 3)))):
            with self.assertRaisesRegex(ValueError, rf"{array.dtype} \[.*expected uint8 \[height, width\]"):
                to_input(array)
        with self.assertRaisesRegex(ValueError, r"float64 \[3, 2, 2\]; expected float32 or uint8 \[3, height, width\]"):
            to_input(Pixels(np.zeros((3, 2, 2))))

    def test_a_list_is_asked_for(self):
        for single in ("text", b"file", TextPair("a", "b"), np.zeros((2, 2), np.uint8), pathlib.Path("a")):
            with self.assertRaisesRegex(TypeError, r"expected; \[x\] is a list of one"):
                to_inputs(single)
        with self.assertRaisesRegex(TypeError, "input 1: int is no input"):
            to_inputs(["a", 3])
        with self.assertRaisesRegex(ValueError, "input 1: an array"):
            to_inputs(["a", np.zeros(3)])


class GroupingTest(unittest.TestCase):
    def groups(self, values, **bulk):
        grouping = Grouping(BulkOptions(**bulk))
        groups = [group for value in values for group in grouping.add(value)] + grouping.rest()
        first = 0
        for index, inputs in groups:
            self.assertEqual(index, first)
            first += len(inputs)
        self.assertEqual([value for _, inputs in groups for value in inputs], list(values))
        return [len(inputs) for _, inputs in groups]

    def test_groups_end_at_the_number_of_inputs_or_their_bytes(self):
        self.assertEqual(self.groups(["x"] * 7, max_texts=3), [3, 3, 1])
        self.assertEqual(self.groups([b"x"] * 7, max_images=2), [2, 2, 2, 1])
        self.assertEqual(self.groups([b"x", "y"] * 4, max_images=4, max_texts=4), [4, 4])
        self.assertEqual(self.groups([b"xxx"] * 5, max_bytes=7), [2, 2, 1])
        self.assertEqual(self.groups([b"x", b"x" * 9, b"x"], max_bytes=7), [1, 1, 1])
        self.assertEqual(self.groups([]), [])


if __name__ == "__main__":
    unittest.main()
