"""What tools/make_model.py writes is what `lion inspect` finds in it, in every layout. ctest runs it: LION [TEST...]."""

import contextlib
import io
import itertools
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import make_model  # noqa: E402
import random_tensors  # noqa: E402

LION = ""
SMALL = "--width 48 --depth 2 --heads 3"
VARIANTS = {"lit": "LION-LIT", "d": "LION-D", "s": "LION-S", "softmax": "softmax"}
FORMATS = {
    "safetensors": "safetensors", "safetensors --shards 3": "safetensors, 3 shards",
    "bin": "torch zip, plain state_dict", "bin --shards 2": "torch zip, plain state_dict, 2 shards",
    "pth": "torch zip, DeiT layout", "pth --ema": "torch zip, DeiT layout",
    "state-dict": "torch zip, plain state_dict", "composer": "torch zip, Composer layout",
}
TYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


class MakeModelTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.made = 0

    def make(self, arguments):
        """Returns the folder and the number of parameters that the tool prints."""
        self.made += 1
        folder = pathlib.Path(self.folder.name, str(self.made))
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            make_model.main([str(folder), *arguments.split()])
        return folder, output.getvalue().split(": ")[1].split(" ")[0]

    def inspect(self, folder, flags=""):
        return subprocess.run([LION, "inspect", str(folder), *flags.split()], capture_output=True, text=True)

    def expect(self, arguments, flags="", **expected):
        """`expected`: the report's keys with _ for a blank."""
        with self.subTest(arguments):
            folder, parameters = self.make(arguments)
            done = self.inspect(folder, flags)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertNotIn("\nwarnings\n", done.stdout)
            self.assertIn(f" {parameters} elements", re.search("in all.*", done.stdout)[0])
            for key, value in expected.items():
                found = re.search(rf"^ *{key.replace('_', ' ')} +(.*?)(?:  |$)", done.stdout, re.MULTILINE)
                self.assertIsNotNone(found, f"{key}\n{done.stdout}")
                self.assertEqual(found[1], value, f"{key}\n{done.stdout}")
            return done.stdout

    def test_vision_in_every_layout_variant_and_order(self):
        types = itertools.cycle(TYPES)
        for (layout, file_format), variant, order in itertools.product(FORMATS.items(), VARIANTS, ("normal", "s")):
            dtype = next(types)
            report = self.expect(
                f"{SMALL} --layout {layout} --variant {variant} --order {order} --dtype {dtype} --num-classes 10",
                format=file_format, modality="vision", mask_type=VARIANTS[variant], patch_order=order, width="48",
                depth="2", heads="3", mlp_width="192", patch_size="16", position_embeddings="false", pooling="mean",
                classes="10", image_size="224")
            if report:
                self.assertIn(f"  {TYPES[dtype]} ", report)
                self.assertEqual("a file that holds both model and ema" in report, "--ema" in layout)

    def test_vision_with_other_settings(self):
        self.expect(f"{SMALL} --pos-emb --cls-tok --img-size 64 --patch-size 8 --num-classes 0 --mlp-width 96",
                    position_grid="8 x 8", pooling="cls", classes="0", mlp_width="96", patch_size="8", image_size="64")
        self.expect(f"{SMALL} --layout state-dict --prefix module._orig_mod.", prefix="module._orig_mod.")

    def test_vision_without_a_sidecar(self):
        self.expect("--size tiny --depth 1 --layout pth --variant lit --no-config", mask_type="LION-LIT", heads="3",
                    pooling="mean", image_size="224")
        flags = "--mask-type softmax --heads 3 --pooling cls"
        self.expect(f"{SMALL} --layout state-dict --variant softmax --no-config", flags, mask_type="softmax", heads="3")
        folder, _ = self.make(f"{SMALL} --layout state-dict --variant softmax --no-config")
        done = self.inspect(folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("give --mask-type", done.stdout)

    def test_text_in_every_layout_and_spelling(self):
        spellings = [(variant, name) for variant, names in make_model.ARCH_TYPES.items() for name in names]
        layouts = [layout for layout in FORMATS if not layout.startswith("pth")]
        tasks, types = itertools.cycle(("mlm", "classify", "regress", "embed", "mlm --untied")), itertools.cycle(TYPES)
        for layout, (variant, spelling) in itertools.product(layouts, spellings):
            task, dtype = next(tasks), next(types)
            self.expect(
                f"--modality text {SMALL} --layout {layout} --variant {variant} --spelling {spelling} --dtype {dtype} "
                f"--vocabulary 80 --max-positions 16 --task {task}",
                format=FORMATS[layout], modality="text", mask_type=VARIANTS[variant], width="48", depth="2", heads="3",
                positions="none, any length" if variant in "ds" else "16", vocabulary="80 of 80 rows",
                masked_LM_head="yes" if "mlm" in task else "no",
                classes={"classify": "3", "regress": "1"}.get(task, "0"))

    def test_text_with_other_settings(self):
        text = f"--modality text {SMALL} --vocabulary 80 --max-positions 16"
        self.expect(f"{text} --vocabulary-rows 88 --layer-norm-after --leftovers", vocabulary="80 of 88 rows",
                    mixer_layer_norm="true")
        self.expect(f"{text} --no-bert --old-norm-names --layout bin --prefix module.", prefix="module.")
        self.expect(f"{text} --variant softmax --task sentence", mask_type="softmax", normalize="true", pooling="mean",
                    longest_text="16")

    def test_composer_without_a_sidecar(self):
        text = f"--modality text {SMALL} --vocabulary 80 --max-positions 16 --layout composer --no-config"
        self.expect(f"{text} --variant s --no-bert", mask_type="LION-S", positions="none, any length")
        self.expect(f"{text} --variant lit", "--mask-type lit --heads 3", mask_type="LION-LIT", positions="16")

    def test_the_seed_decides_every_byte(self):
        def content(seed, dtype):
            folder, _ = self.make(f"{SMALL} --layout pth --seed {seed} --dtype {dtype}")
            return (folder / "checkpoint.pth").read_bytes()

        self.assertEqual(content(7, "f32"), content(7, "f32"))
        self.assertNotEqual(content(7, "f32"), content(8, "f32"))

    def test_values_are_normal_and_rows_differ(self):
        maker = random_tensors.TensorMaker(3, "f32")
        tensor = maker.normal(500, 768, std=0.5, mean=1.0)
        values = struct.unpack(f"<{tensor.elements}f", tensor.bytes())
        mean = sum(values) / len(values)
        self.assertAlmostEqual(mean, 1.0, delta=0.01)
        self.assertAlmostEqual(sum((value - mean)**2 for value in values) / len(values), 0.25, delta=0.005)
        self.assertEqual(len({values[row * 768:(row + 1) * 768] for row in range(500)}), 500)

    def test_bfloat16_is_rounded_to_nearest_even(self):
        values = [1.0, -2.5, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, 3.0e38]
        expected = [1.0, -2.5, 1.0, 1 + 2**-6, 1 + 2**-7]
        words = struct.unpack("<6H", random_tensors.to_bytes(values, "bf16"))
        self.assertEqual([struct.unpack("<f", struct.pack("<I", word << 16))[0] for word in words[:5]], expected)

    def test_refuses_what_does_not_go_together(self):
        for arguments in ("--width 50 --depth 1 --heads 3", "--size tiny --layout pth --shards 2", "--depth 3",
                          "--size tiny --ema", "--size tiny --modality text --layout pth",
                          "--size tiny --modality text --variant d --spelling lion-s",
                          "--size tiny --modality text --task sentence"):
            with self.subTest(arguments), contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit) as e:
                self.make(arguments)
            self.assertEqual(e.exception.code, 2, arguments)


if __name__ == "__main__":
    LION = sys.argv.pop(1)
    unittest.main()
