"""What the figures were measured on and with."""

import datetime
import importlib.metadata
import os
import pathlib
import platform
import re
import subprocess

PACKAGES = ("torch", "onnxruntime", "openvino", "onnx", "onnxscript", "numpy")
INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16")


def read(path):
    return pathlib.Path(path).read_text()


def cores():
    return len(os.sched_getaffinity(0))


def available_bytes():
    available = int(re.search(r"MemAvailable: +(\d+)", read("/proc/meminfo"))[1]) * 1024
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        if os.path.exists(path) and read(path).strip().isdigit():
            available = min(available, int(read(path)))
    return available


def load():
    return os.getloadavg()[0]


def revision():
    root = pathlib.Path(__file__).resolve().parents[2]
    done = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def describe(threads):
    cpu = read("/proc/cpuinfo")
    flags = re.search(r"^flags\s*: (.*)", cpu, re.MULTILINE)[1].split()
    return {
        "date": datetime.date.today().isoformat(), "cpu": re.search(r"^model name\s*: (.*)", cpu, re.MULTILINE)[1],
        "family_model": "/".join(re.search(rf"^{key}\s*: (\d+)", cpu, re.MULTILINE)[1]
                                 for key in ("cpu family", "model")),
        "cores": cores(), "threads": threads, "instructions": [name for name in INSTRUCTIONS if name in flags],
        "memory_gib": round(available_bytes() / 2**30, 1), "kernel": platform.release(),
        "python": platform.python_version(), "lion": revision(), "load_at_start": load(),
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES}}
