"""Whether a failed call is made again, and after how long. No clock, no sleep, no random source."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Optional

import grpc

from .errors import LionError


@dataclass(frozen=True)
class RetryPolicy:
    """Only UNAVAILABLE, and RESOURCE_EXHAUSTED with a pushback (a full queue), are tried again.

    unavailable_attempts, busy_attempts: calls altogether, the first included; 1: never tried again. With the waits
        below 5 last about 1.5 s and 12 about 30 s.
    first_wait_s, largest_wait_s: the wait doubles from the first to the largest; each is shortened by up to half at
        random, so that callers who were refused together do not come back together. A pushback is waited out in full.
    budget: what all calls of a client together may spend on retries after UNAVAILABLE. A retry takes 1, a call that
        succeeds gives 0.1 back; while less than 1 is left, errors are raised at once, so that a server that is gone is
        not met with many times the load when it comes back.
    """

    unavailable_attempts: int = 5
    busy_attempts: int = 12
    first_wait_s: float = 0.1
    largest_wait_s: float = 5.0
    budget: float = 100.0

    def next_wait(self, error: LionError, attempt: int, random: float) -> Optional[float]:
        """Seconds until the next try after `attempt` calls (from 1), the last of which failed with `error`; None: give
        up. `random` is in [0, 1)."""
        attempts = 1
        if error.code is grpc.StatusCode.UNAVAILABLE:
            attempts = self.unavailable_attempts
        elif error.code is grpc.StatusCode.RESOURCE_EXHAUSTED and error.pushback_s is not None:
            attempts = self.busy_attempts
        pushback = error.pushback_s or 0.0
        if attempt >= attempts or pushback < 0:
            return None
        doubled = min(self.first_wait_s * 2.0**min(attempt - 1, 60), self.largest_wait_s)
        return max(doubled * (1 - 0.5 * random), pushback)


NO_RETRIES = RetryPolicy(unavailable_attempts=1, busy_attempts=1)


class RetryBudget:
    """Thread-safe. See RetryPolicy.budget."""

    def __init__(self, most: float) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._left = most

    def take(self, error: LionError) -> bool:
        """Whether `error` may be answered with a retry. The server itself paces those of a full queue."""
        if error.code is not grpc.StatusCode.UNAVAILABLE:
            return True
        with self._lock:
            if self._left < 1:
                return False
            self._left -= 1
            return True

    def succeeded(self) -> None:
        with self._lock:
            self._left = min(self._left + 0.1, self._most)


def concerns_every_call(error: LionError) -> bool:
    """An error that the next call would meet as well, whatever its inputs: no server, no such model, no head."""
    return error.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNAUTHENTICATED,
                          grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED,
                          grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION)
