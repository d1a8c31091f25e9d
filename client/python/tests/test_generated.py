"""The generated files are what protoc makes of proto/lion/v1/lion.proto today."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parents[1]


def protoc_version():
    if not shutil.which("protoc"):
        return "none"
    return subprocess.run(["protoc", "--version"], check=True, capture_output=True, text=True).stdout.strip()


class GeneratedTest(unittest.TestCase):
    @unittest.skipUnless(protoc_version().startswith("libprotoc 3.21."),
                         f"protoc 3.21 writes them, here is {protoc_version()}")
    def test_generated_files_are_current(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([HERE / "generate.sh", folder], check=True)
            for name in ("lion_pb2.py", "lion_pb2.pyi"):
                self.assertEqual((HERE / "lion_client" / name).read_text(), pathlib.Path(folder, name).read_text(),
                                 f"{name} is not current: client/python/generate.sh writes it")


if __name__ == "__main__":
    unittest.main()
