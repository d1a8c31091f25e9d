"""lion_runner answers its commands as README.md says, and refuses what it cannot run. ctest: LION_RUNNER [TEST...]."""

import contextlib
import io
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import make_model  # noqa: E402

RUNNER = ""
SIDE, BATCH, WIDTH = 48, 2, 48


class LionRunnerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.images = self.folder / "images.f32"
        one = [random.Random(1).gauss(0, 1) for _ in range(3 * SIDE * SIDE)]
        self.images.write_bytes(struct.pack(f"<{BATCH * len(one)}f", *one, *one))
        self.model = self.make("vision", "--variant", "s")

    def make(self, name, *arguments):
        with contextlib.redirect_stdout(io.StringIO()):
            make_model.main([str(self.folder / name), "--width", str(WIDTH), "--depth=2", "--heads=3", *arguments])
        return self.folder / name

    def run_lines(self, lines, *flags, model=None, side=SIDE):
        command = [RUNNER, model or self.model, "--images", self.images, "--side", side, "--batch", BATCH, *flags]
        return subprocess.run([str(word) for word in command], input="".join(f"{line}\n" for line in lines), text=True,
                              capture_output=True)

    def expect_error(self, done, text):
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(text, done.stderr)

    def test_answers_each_command_with_a_line(self):
        out = self.folder / "embeddings.f32"
        done = self.run_lines(["run", f"write {out}", "memory"], "--threads", 1, "--turn-ms", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        ready, run, written, memory = map(json.loads, done.stdout.splitlines())
        self.assertEqual(ready["threads"], 1)
        self.assertGreaterEqual(sum(run["ms"]), 1)
        self.assertEqual(written, {})
        self.assertGreater(memory["peak_bytes"], 0)
        numbers = struct.unpack(f"<{BATCH * WIDTH}f", out.read_bytes())
        self.assertEqual(numbers[:WIDTH], numbers[WIDTH:])  # both images are the same
        self.assertGreater(max(numbers), min(numbers))

    def test_one_pass_a_run_unless_a_turn_is_longer(self):
        done = self.run_lines(["run"])
        self.assertEqual(len(json.loads(done.stdout.splitlines()[1])["ms"]), 1)

    def test_an_unknown_command_is_an_error(self):
        self.expect_error(self.run_lines(["walk"]), "expected run, write PATH or memory, found walk")

    def test_images_of_another_size_are_an_error(self):
        for side, found in ((SIDE + 16, "found fewer"), (SIDE - 16, "found more")):
            with self.subTest(found):
                self.expect_error(self.run_lines(["run"], side=side), found)

    def test_images_smaller_than_a_patch_are_an_error(self):
        self.images.write_bytes(bytes(4 * BATCH * 3 * 8 * 8))
        self.expect_error(self.run_lines(["run"], side=8), "patch")

    def test_a_text_model_is_an_error(self):
        text = self.make("text", "--modality", "text", "--vocabulary", "300")
        self.expect_error(self.run_lines(["run"], model=text), "expected a vision model, found a text model")

    def run_texts(self, content, lines=("run",)):
        model = self.make("text", "--modality", "text", "--vocabulary", "300", "--variant", "s")
        texts = self.folder / "texts"
        texts.write_text(content)
        return subprocess.run([RUNNER, model, "--texts", texts], input="".join(f"{line}\n" for line in lines), text=True,
                              capture_output=True)

    def test_texts_of_any_lengths_are_one_batch(self):
        out = self.folder / "embeddings.f32"
        done = self.run_texts("2 9 17 3\n2 3\n2 9 17 3\n", ["run", f"write {out}"])
        self.assertEqual(done.returncode, 0, done.stderr)
        numbers = struct.unpack(f"<{3 * WIDTH}f", out.read_bytes())
        self.assertEqual(numbers[:WIDTH], numbers[2 * WIDTH:])
        self.assertNotEqual(numbers[:WIDTH], numbers[WIDTH:2 * WIDTH])

    def test_texts_must_be_ids_of_the_vocabulary(self):
        self.expect_error(self.run_texts("2 nine 3\n"), "expected token ids, found nine")
        self.expect_error(self.run_texts("2 300 3\n"), "300")


if __name__ == "__main__":
    RUNNER = sys.argv.pop(1)
    unittest.main()
