"""A line on standard error that says how far a bulk run is."""

from __future__ import annotations

import math
import sys
import time
from typing import Optional, TextIO

_BAR = 24
_EVERY_S = 0.1


def format_progress(done: int, total: Optional[int], failed: int, elapsed_s: float) -> str:
    text = str(done)
    if total:
        filled = min(_BAR * done // total, _BAR)
        text = f"[{'#' * filled}{'.' * (_BAR - filled)}] {done}/{total}  {100 * done // total} %"
    if done and elapsed_s > 0:
        rate = done / elapsed_s
        text += f"  {rate:.{1 if rate < 10 else 0}f} inputs/s"
        if total and total >= done:
            text += f"  {math.ceil((total - done) / rate)} s left"
    return text + (f"  {failed} failed" if failed else "")


class Progress:
    """Shown where `enabled` and the stream is a terminal; taken away at the end."""

    def __init__(self, enabled: bool, total: Optional[int], stream: Optional[TextIO] = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._enabled = enabled and self._stream is not None and self._stream.isatty()
        self._total = total
        self._start = self._drawn = time.monotonic()
        self._done = self._failed = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._enabled:
            self._write("")

    def input_done(self, ok: bool) -> None:
        self._done += 1
        self._failed += not ok
        now = time.monotonic()
        if self._enabled and now - self._drawn >= _EVERY_S:
            self._drawn = now
            self._write(format_progress(self._done, self._total, self._failed, now - self._start))

    def _write(self, line: str) -> None:
        self._stream.write(f"\r\x1b[K{line}")
        self._stream.flush()
