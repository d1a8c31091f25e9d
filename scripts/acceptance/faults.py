#!/usr/bin/env python3
"""What other callers notice of clients that die, stall, flood or send garbage: a steady open loop runs alone, then beside
each fault. Fails where one of its calls fails, its 99th percentile more than doubles, or the server keeps memory,
descriptors or threads afterwards. What bulk clients have sent before they die or stall is work to be done: these two are
measured against as many bulk clients with which nothing is wrong.

faults.py [--seconds 25] [--only REGEX]. Needs the release build, Python 3.9 and a limit of 6,000 open files.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from server_process import BIN, Server, make_model

RATE = 50  # calls a second
MOST_RATIO = 2
BULK_CLIENTS = 5
BULK = f"{BULK_CLIENTS} bulk clients with which nothing is wrong"
CONNECTIONS = 5000
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


SETTINGS = frame(4, 0, 0, b"")


def connect(server):
    host, port = server.address.split(":")
    return socket.create_connection((host, int(port)), timeout=10)


@contextlib.contextmanager
def repeated(action):
    """`action` again and again on a thread until the block is left."""
    stop = threading.Event()

    def run():
        while not stop.is_set():
            action()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def bulk_client(server, images):
    """Sends the images over streams, many times over: for longer than a fault lasts."""
    return subprocess.Popen([BIN / "lion", "embed", *images * 2000, "--server", server.address], **QUIET)


def check_under_way(client):
    """A client that has ended of its own accord disturbs nobody: the figures would mean nothing."""
    if client.poll() is not None:
        raise RuntimeError(f"the bulk client ended with {client.returncode} before it was disturbed")


@contextlib.contextmanager
def bulk_clients(server, files):
    clients = [bulk_client(server, files["images"]) for _ in range(BULK_CLIENTS)]
    time.sleep(0.5)
    try:
        yield clients
        for client in clients:
            check_under_way(client)
    finally:
        for client in clients:
            client.kill()
            client.wait()


@contextlib.contextmanager
def killed_clients(server, files):
    endings = []

    def one():
        client = bulk_client(server, files["images"])
        time.sleep(0.3)
        client.kill()
        endings.append(client.wait())

    with contextlib.ExitStack() as stack:
        for _ in range(BULK_CLIENTS):
            stack.enter_context(repeated(one))
        yield
    if set(endings) != {-signal.SIGKILL}:
        raise RuntimeError(f"bulk clients ended of their own accord: {endings}")


@contextlib.contextmanager
def slow_readers(server, files):
    with bulk_clients(server, files) as clients:
        for client in clients:
            check_under_way(client)
            client.send_signal(signal.SIGSTOP)
        yield


def held(count, first_bytes):
    @contextlib.contextmanager
    def connections(server, _):
        with contextlib.ExitStack() as stack:
            for _ in range(count):
                connection = stack.enter_context(connect(server))
                connection.sendall(first_bytes)
            yield

    return connections


@contextlib.contextmanager
def large_messages(server, files):
    command = [BIN / "lion", "embed", files["large"], "--server", server.address]
    with repeated(lambda: subprocess.run(command, **QUIET, check=False)):
        yield


@contextlib.contextmanager
def hostile_bytes(server, _):
    random_ = random.Random(1)

    def one():
        garbage = random_.randbytes(random_.randrange(1, 4096))
        frames = b"".join(frame(random_.randrange(12), random_.randrange(256), random_.randrange(8),
                                random_.randbytes(random_.randrange(64))) for _ in range(20))
        with contextlib.suppress(OSError), connect(server) as connection:
            connection.sendall(random_.choice([garbage, b"GET / HTTP/1.1\r\n\r\n", PREFACE + garbage,
                                               PREFACE + SETTINGS + frames, b"\x16\x03\x01" + garbage]))
            connection.settimeout(0.05)
            while connection.recv(65536):
                pass

    with repeated(one):
        yield


FAULTS = {
    "nothing": lambda *_: contextlib.nullcontext(),
    BULK: bulk_clients,
    f"{BULK_CLIENTS} bulk clients, killed (-9) every 0.3 s": killed_clients,
    f"{BULK_CLIENTS} bulk clients that stop reading": slow_readers,
    "500 connections that go silent after the preface": held(500, PREFACE + SETTINGS),
    "500 connections that never say anything": held(500, b""),
    f"{CONNECTIONS} idle connections": held(CONNECTIONS, PREFACE + SETTINGS + frame(4, 1, 0, b"")),
    "messages of 200 MB": large_messages,
    "hostile bytes": hostile_bytes,
    "nothing, again": lambda *_: contextlib.nullcontext(),
}


def probe(server, folder, seconds):
    report = folder / "report.json"
    subprocess.run([BIN / "lion", "bench", "--server", server.address, "--rate", str(RATE), "--sizes", "64",
                    "--duration-s", str(seconds), "--json", report], **QUIET, check=False)
    return json.loads(report.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=25, help="beside each fault; 20 at least for a 99th percentile")
    parser.add_argument("--only", default="", metavar="REGEX", help="of the faults; those to compare with always run")
    o = parser.parse_args()
    seconds = o.seconds
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    p99, failures = {}, []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = make_model(folder / "tiny", "--size", "tiny", "--variant", "s")
        files = {"images": sorted(pathlib.Path(__file__).parents[2].glob("models/mnist-lion-s/digits/*.png")),
                 "large": folder / "large.png"}
        files["large"].write_bytes(b"\x89PNG\r\n\x1a\n" + os.urandom(1 << 20) * 200)
        with Server(folder, "--model", model) as server:
            probe(server, folder, 5)
            before = server.descriptors(), server.threads()
            print(f"{RATE} calls a second for {seconds:g} s beside:      p50, ms  p99, ms    max  failed  memory, MiB")
            for fault, make in FAULTS.items():
                if not re.search(o.only, fault) and "nothing" not in fault:
                    continue
                with make(server, files):
                    report = probe(server, folder, seconds)
                latency = report["latency"]["from_send"]
                p99[fault] = 1e-6 * (latency["p99_ns"] or latency["max_ns"])
                failed = report["calls"]["failed"] + report["calls"]["not_sent_in_flight"]
                print("{:<50} {:>7.2f} {:>8.2f} {:>6.0f} {:>7} {:>12.0f}".format(
                    fault, 1e-6 * latency["p50_ns"], p99[fault], 1e-6 * latency["max_ns"], failed, server.resident_mib()),
                    flush=True)
                if failed:
                    failures.append(f"{fault}: {failed} calls failed: {report['errors']}")
            alone = max(value for fault, value in p99.items() if fault.startswith("nothing"))
            for fault, value in p99.items():
                normal = p99[BULK] if "bulk" in fault else alone
                if value > MOST_RATIO * normal:
                    failures.append(f"{fault}: p99 {value:.2f} ms, {value / normal:.1f} times the normal one")
            time.sleep(3)
            after = server.descriptors(), server.threads()
            print(f"descriptors {before[0]} before, {after[0]} after; threads {before[1]}, {after[1]}")
            if after[0] > before[0] + 2 or after[1] > before[1] + 8:
                failures.append("descriptors or threads were kept")
            if server.stop() != 0:
                failures.append("the server did not exit with 0")
    print("\n".join(failures) or "as promised")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
