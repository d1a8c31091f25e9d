"""Many inputs through a few requests at a time: what both clients' bulk runs have in common."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, AsyncIterable, Dict, Generic, Iterable, List, Optional, Sized, Tuple, Union

from .inputs import InputLike, is_text, size_of
from .steps import Exchange, GroupCall, Patience
from .tasks import R, Task

Inputs = Union[Iterable[InputLike], AsyncIterable[InputLike]]
Group = Tuple[int, List[InputLike]]  # the number of its first input, and its inputs
# What the server is to say first when a request's timeout has passed: without its answer even then, the stream is given
# up.
GRACE_S = 1.0
# How long the server may take to end a stream that is done.
END_GRACE_S = 2.0


@dataclass(frozen=True)
class BulkOptions:
    """max_images, max_texts, max_bytes: a request takes inputs until one is reached, and at least one input. The server
        forms its own batches, so that larger requests make them no better.
    max_requests: unanswered at a time. Memory: max_requests * max_bytes (or the largest input), and 2 * max_requests
        groups of inputs and of results that wait for an earlier one.
    max_stream_bytes: larger requests go as calls of their own, beside the stream; 0: all.
    timeout_s: of each request, from its receipt by the server; None: none. One may hold 16 images of a large model.
    """

    max_images: int = 16
    max_texts: int = 64
    max_bytes: int = 4 << 20
    max_requests: int = 8
    max_stream_bytes: int = 8 << 20
    timeout_s: Optional[float] = 300.0

    def __post_init__(self) -> None:
        for name in ("max_images", "max_texts", "max_bytes", "max_requests"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected 1 or more")
        if self.timeout_s is not None and not 0 < self.timeout_s < math.inf:
            raise ValueError(f"timeout_s is {self.timeout_s}; expected seconds above 0, or None")


class BulkPlan(Generic[R]):
    """One run. TypeError, ValueError: an option that there is not, or out of range."""

    def __init__(self, task: Task[R], inputs: Inputs, options: Dict[str, Any], bulk: BulkOptions, patience: Patience,
                 total: Optional[int]) -> None:
        if not isinstance(inputs, (Iterable, AsyncIterable)) or isinstance(inputs, (str, bytes)):
            raise TypeError(f"a {type(inputs).__name__} where an iterable of inputs is expected")
        for name in ("timeout", "partial_results"):
            if name in options:
                raise TypeError(f"{name} is no option of a bulk run; BulkOptions.timeout_s is its timeout, and a bad "
                                "input always is an error in its own result")
        prototype = task.make_request(partial_results=True, **options)
        if bulk.timeout_s is not None:
            prototype.options.timeout_ms = min(math.ceil(bulk.timeout_s * 1000), 2**32 - 1)
        self.task = task
        self.inputs: Any = inputs
        self.bulk = bulk
        self.total = len(inputs) if total is None and isinstance(inputs, Sized) else total
        self.call = GroupCall(task, prototype, patience, Exchange(task, bulk.max_stream_bytes or -1))
        # Taken and not delivered.
        self.max_groups = 3 * bulk.max_requests


class Grouping:
    """Puts inputs into groups."""

    def __init__(self, bulk: BulkOptions) -> None:
        self._bulk = bulk
        self._first = 0
        self._values: List[InputLike] = []
        self._share = 0.0  # of what a group may have
        self._bytes = 0

    def add(self, value: InputLike) -> List[Group]:
        """The groups that are complete: none, one or two."""
        done = []
        size = size_of(value)
        if self._values and self._bytes + size > self._bulk.max_bytes:
            done.append(self._take())
        self._values.append(value)
        self._bytes += size
        self._share += 1 / (self._bulk.max_texts if is_text(value) else self._bulk.max_images)
        if self._bytes >= self._bulk.max_bytes or self._share > 1 - 1e-9:
            done.append(self._take())
        return done

    def rest(self) -> List[Group]:
        return [self._take()] if self._values else []

    def _take(self) -> Group:
        group = (self._first, self._values)
        self._first += len(self._values)
        self._values, self._share, self._bytes = [], 0.0, 0
        return group
