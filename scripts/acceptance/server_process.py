"""A lion-server of its own for the scripts of this folder: any free port, its log and its memory."""

import pathlib
import re
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "release" / "bin"


class Server:
    """lion-server with `arguments`; with `cpu`, on that processor alone. Ready when made; stopped when left."""

    def __init__(self, folder, *arguments, cpu=None, ready_s=120):
        self.log = pathlib.Path(folder) / "server.log"
        pinned = [] if cpu is None else ["taskset", "-c", str(cpu)]
        command = [*pinned, BIN / "lion-server", "--host", "127.0.0.1", "--grpc-port", "0", "--metrics-port", "0",
                   *map(str, arguments)]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.address = f"127.0.0.1:{self._port('listening on .* port ', ready_s)}"
        self.metrics_port = self._port("metrics on port ", ready_s)
        subprocess.run([BIN / "lion", "health", "--wait", str(ready_s), "--server", self.address], check=True,
                       stdout=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def _port(self, before, wait_s):
        end = time.monotonic() + wait_s
        while time.monotonic() < end and self.process.poll() is None:
            if found := re.search(before + r"(\d+)", self.log.read_text(errors="replace")):
                return int(found[1])
            time.sleep(0.02)
        raise RuntimeError(f"the server did not start:\n{self.log.read_text(errors='replace')}")

    def _status(self, name):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"^{name}:\s+(\d+)", text, re.M)[1])

    def resident_mib(self):
        return self._status("VmRSS") / 1024

    def threads(self):
        return self._status("Threads")

    def descriptors(self):
        return len(list(pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def stop(self, timeout_s=60):
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)


def make_model(folder, *arguments):
    """A model with random weights (tools/make_model.py)."""
    subprocess.run(["python3", ROOT / "tools" / "make_model.py", folder, *arguments], check=True,
                   stdout=subprocess.DEVNULL)
    return folder
