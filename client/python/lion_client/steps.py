"""What a call does beside the network, for the synchronous and the asynchronous client alike: retries, the choice
between a stream and single calls, halves. Generators that yield what is to be done (Unary, Streamed, Pause, Work) and
get its outcome sent, or a LionError thrown, by run or run_async: nothing here sleeps, reads files or makes calls."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Awaitable, Callable, Generator, Generic, List, Sequence, Tuple, TypeVar, Union

import grpc

from .errors import LionError, StreamEnded, is_too_large
from .inputs import InputLike, to_input
from .retry import RetryBudget, RetryPolicy, concerns_every_call
from .tasks import Method, R, Task, check_result_count

T = TypeVar("T")


@dataclass(frozen=True)
class Unary:
    """A call; its response."""

    method: Method
    request: Any


@dataclass(frozen=True)
class Streamed:
    """A request in a stream; its response. StreamEnded: see there."""

    request: Any


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Work:
    """Something that may block; its return value."""

    function: Callable[[], Any]


Steps = Generator[Union[Unary, Streamed, Pause, Work], Any, T]


def run(steps: Steps[T], perform: Callable[[Any], Any]) -> T:
    outcome: Any = None
    act: Callable[[Any], Any] = steps.send
    while True:
        try:
            effect = act(outcome)
        except StopIteration as stop:
            result: T = stop.value
            return result
        try:
            act, outcome = steps.send, perform(effect)
        except LionError as error:
            act, outcome = steps.throw, error


async def run_async(steps: Steps[T], perform: Callable[[Any], Awaitable[Any]]) -> T:
    outcome: Any = None
    act: Callable[[Any], Any] = steps.send
    while True:
        try:
            effect = act(outcome)
        except StopIteration as stop:
            result: T = stop.value
            return result
        try:
            act, outcome = steps.send, await perform(effect)
        except LionError as error:
            act, outcome = steps.throw, error


@dataclass(frozen=True)
class Patience:
    """How failed calls are tried again."""

    policy: RetryPolicy
    budget: RetryBudget

    def call(self, once: Callable[[], Steps[T]], seconds_left: Callable[[], float]) -> Steps[T]:
        """A pause that would outlast the time left is not made: what failed is raised."""
        attempt = 1
        while True:
            try:
                result = yield from once()
            except LionError as error:
                wait = self.policy.next_wait(error, attempt, random.random())
                if wait is None or wait >= seconds_left() or not self.budget.take(error):
                    raise
                yield Pause(wait)
                attempt += 1
            else:
                self.budget.succeeded()
                return result


def unary(method: Method, request: Any) -> Steps[Any]:
    return (yield Unary(method, request))


def unary_of_inputs(task: Task[R], request: Any) -> Steps[Any]:
    response = yield Unary(task.method, request)
    check_result_count(response, len(request.inputs))
    return response


class Exchange:
    """One request and its response, by a stream where that serves: StreamCalls of the command line, with its rules."""

    def __init__(self, task: Task[R], max_stream_bytes: int) -> None:
        self._task = task
        # Larger requests go as unary calls: one over the server's limit would end the stream for all others.
        self._max_stream_bytes = max_stream_bytes

    def __call__(self, request: Any) -> Steps[Any]:
        size = request.ByteSize()
        if size <= self._max_stream_bytes:
            try:
                response = yield Streamed(request)
                check_result_count(response, len(request.inputs))
                return response
            except StreamEnded as end:
                if end.code is grpc.StatusCode.UNAVAILABLE:
                    raise  # trying again, and when, is decided above
                # CANCELLED: because of another request's timeout.
                if not is_too_large(end) and end.code is not grpc.StatusCode.CANCELLED:
                    self._max_stream_bytes = -1
        try:
            return (yield from unary_of_inputs(self._task, request))
        except LionError as error:
            if is_too_large(error):
                self._max_stream_bytes = min(self._max_stream_bytes, size // 2)
            raise


@dataclass(frozen=True)
class GroupCall(Generic[R]):
    """Consecutive inputs of a bulk run, sent together: results in their order. An input that cannot be read, and one
    that the server refuses, fail alone. Raised is an error that every further call would meet, too."""

    task: Task[R]
    prototype: Any  # a request without inputs
    patience: Patience
    exchange: Exchange

    def __call__(self, first_index: int, values: Sequence[InputLike]) -> Steps[List[Any]]:
        results: List[Any] = [None] * len(values)
        sendable: List[Tuple[int, Any]] = []
        for n, value in enumerate(values):
            try:
                sendable.append((n, (yield Work(lambda value=value: _read(value)))))  # type: ignore[misc]
            except LionError as error:
                results[n] = self.task.failed(error.of_input(first_index + n))
        if sendable:
            yield from self._send(first_index, sendable, results)
        return results

    def _send(self, first_index: int, inputs: List[Tuple[int, Any]], results: List[Any]) -> Steps[None]:
        request = type(self.prototype)()
        request.CopyFrom(self.prototype)
        request.inputs.extend(value for _, value in inputs)
        try:
            response = yield from self.patience.call(lambda: self.exchange(request), lambda: float("inf"))
        except LionError as error:
            if len(inputs) > 1 and (error.code is grpc.StatusCode.INVALID_ARGUMENT or is_too_large(error)):
                half = len(inputs) // 2
                del request
                yield from self._send(first_index, inputs[:half], results)
                yield from self._send(first_index, inputs[half:], results)
                return
            if concerns_every_call(error):
                raise
            for n, _ in inputs:
                results[n] = self.task.failed(error.of_input(first_index + n))
            return
        for (n, _), result in zip(inputs, self.task.results(response)):
            results[n] = result if result.error is None else self.task.failed(result.error.of_input(first_index + n))


def _read(value: InputLike) -> Any:
    try:
        return to_input(value)
    except (OSError, ValueError) as error:
        raise LionError(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error
