"""A peer's process, spoken to in lines: start, ask, stop. What goes wrong in it becomes a Failure with a reason."""

import json
import os
import resource
import select
import subprocess
import time

OUT_OF_MEMORY = ("bad_alloc", "can't allocate memory", "not enough memory", "MemoryError", "Failed to allocate memory",
                 "out of memory", "Cannot allocate memory", "RESOURCE_EXHAUSTED", "not enough for the largest batch",
                 "std::bad_array_new_length", "could not allocate")


class Failure(Exception):
    pass


class Worker:
    def __init__(self, command, log, environment, memory_limit, start_limit_s):
        self.log, self.memory_limit = log, memory_limit
        self.buffer = b""
        with open(log, "wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (memory_limit, memory_limit)))
        try:
            self.read(start_limit_s)
        except Failure:
            self.stop()
            raise

    def ask(self, command, limit_s):
        try:
            self.process.stdin.write(f"{command}\n".encode())
            self.process.stdin.flush()
        except OSError:
            pass  # it has ended: reading says why
        return self.read(limit_s)

    def read(self, limit_s):
        """One line of JSON."""
        deadline = time.monotonic() + limit_s
        while b"\n" not in self.buffer:
            rest = deadline - time.monotonic()
            if rest <= 0 or not select.select([self.process.stdout], [], [], rest)[0]:
                raise Failure(f"over {limit_s:.0f} s")
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece:
                raise Failure(self.reason())
            self.buffer += piece
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    def reason(self):
        code = self.process.wait()
        text = self.log.read_text(errors="replace")
        if code == -9 or any(sign in text for sign in OUT_OF_MEMORY):
            return f"out of memory (limit {self.memory_limit / 2**30:.1f} GiB)"
        last = next((line for line in reversed(text.splitlines()) if line.strip()), f"ended with code {code}")
        return last.strip()[:200]

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
