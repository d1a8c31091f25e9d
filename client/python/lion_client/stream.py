"""Requests and responses of one stream, in any order, for several threads; and a bulk run over it."""

from __future__ import annotations

import concurrent.futures
import queue
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Iterator, List, Optional, Set

import grpc

from .bulk import END_GRACE_S, GRACE_S, BulkPlan, Group, Grouping
from .errors import ENDED_EARLY, LionError, StreamEnded, from_rpc, from_stream, no_answer, unexpected_answer
from .progress import Progress
from .steps import Pause, Streamed, Unary, run
from .tasks import R

if TYPE_CHECKING:
    from .client import Client

Future = concurrent.futures.Future


class Stream:
    """Thread-safe."""

    def __init__(self, open_call: Callable[[Iterator[Any]], Any]) -> None:
        self._lock = threading.Lock()  # guards what follows up to _end
        self._waiting: Dict[int, Future[Any]] = {}  # by sequence
        self._next = 0
        self._end: Optional[LionError] = None
        self._outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()  # None: no more
        self._call = open_call(iter(self._outbox.get, None))
        self._reader = threading.Thread(target=self._read, name="lion-stream", daemon=True)
        self._reader.start()

    def call(self, request: Any, timeout_s: Optional[float]) -> Any:
        """Its response. LionError: the server's, of this request; StreamEnded: the stream's; DEADLINE_EXCEEDED: the
        server said nothing in time, and the stream is cancelled."""
        future: Future[Any] = Future()
        with self._lock:
            if self._end is not None:
                raise StreamEnded.by(self._end)
            self._waiting[self._next] = future
            self._next += 1
            self._outbox.put(request)
        try:
            response = future.result(None if timeout_s is None else timeout_s + GRACE_S)
        except concurrent.futures.TimeoutError:
            self.cancel()
            raise no_answer(timeout_s) from None
        if response.HasField("error"):
            raise from_stream(response.error)
        return response

    @property
    def has_ended(self) -> bool:
        with self._lock:
            return self._end is not None

    def finish(self) -> None:
        """When all is answered: ends the stream in good order, or cancels it after END_GRACE_S."""
        self._outbox.put(None)
        self._reader.join(END_GRACE_S)
        self.cancel()

    def cancel(self) -> None:
        self._call.cancel()

    def _read(self) -> None:
        end = ENDED_EARLY
        try:
            for response in self._call:
                with self._lock:
                    future = self._waiting.pop(response.sequence, None)
                if future is None:
                    end = unexpected_answer(response.sequence)
                    self._call.cancel()
                    break
                future.set_result(response)
        except grpc.RpcError as error:
            end = from_rpc(error)
        with self._lock:
            self._end = end
            waiting, self._waiting = self._waiting, {}
        self._outbox.put(None)  # gRPC's own thread waits for it
        for future in waiting.values():
            future.set_exception(StreamEnded.by(end))


class BulkRun:
    """Delivers results in the order of the inputs. Groups are sent by threads, which also read the files; inputs are
    taken by the thread that asks for results."""

    def __init__(self, client: Client, plan: BulkPlan[R], progress: bool) -> None:
        self._client = client
        self._plan = plan
        self._progress = progress
        self._lock = threading.Lock()  # guards what follows
        self._stream: Optional[Stream] = None
        self._calls: Set[Any] = set()
        self._stopped = threading.Event()

    def results(self) -> Iterator[Any]:
        plan = self._plan
        pool = concurrent.futures.ThreadPoolExecutor(plan.bulk.max_requests, "lion-bulk")
        waiting: Deque[Future[List[Any]]] = deque()
        groups = self._groups()
        try:
            with Progress(self._progress, plan.total) as progress:
                while True:
                    # What is ready is delivered before more is read: the inputs may be slow to come.
                    while len(waiting) < plan.max_groups and not (waiting and waiting[0].done()):
                        group = next(groups, None)
                        if group is None:
                            break
                        waiting.append(pool.submit(self._send, group))
                    if not waiting:
                        break
                    for result in waiting.popleft().result():
                        progress.input_done(result.ok)
                        yield result
            if self._stream is not None:
                self._stream.finish()
        finally:
            self._stop()
            for future in waiting:
                future.cancel()
            pool.shutdown()

    def _groups(self) -> Iterator[Group]:
        grouping = Grouping(self._plan.bulk)
        for value in self._plan.inputs:
            yield from grouping.add(value)
        yield from grouping.rest()

    def _send(self, group: Group) -> List[Any]:
        return run(self._plan.call(*group), self._perform)

    def _perform(self, effect: Any) -> Any:
        if isinstance(effect, Streamed):
            return self._open_stream().call(effect.request, self._plan.bulk.timeout_s)
        if isinstance(effect, Unary):
            return self._unary(effect)
        if isinstance(effect, Pause):
            self._stopped.wait(effect.seconds)
            self._check_running()
            return None
        return effect.function()

    def _open_stream(self) -> Stream:
        with self._lock:
            self._check_running()
            if self._stream is None or self._stream.has_ended:
                method = self._plan.task.stream
                self._stream = Stream(lambda requests: self._client._open(method, requests))
            return self._stream

    def _unary(self, effect: Unary) -> Any:
        with self._lock:
            self._check_running()
            call = self._client._start(effect.method, effect.request, self._plan.bulk.timeout_s)
            self._calls.add(call)
        try:
            return call.result()
        except grpc.FutureCancelledError:
            raise LionError(grpc.StatusCode.CANCELLED, "the run was stopped") from None
        except grpc.RpcError as error:
            raise from_rpc(error) from None
        finally:
            with self._lock:
                self._calls.discard(call)

    def _check_running(self) -> None:
        if self._stopped.is_set():
            raise LionError(grpc.StatusCode.CANCELLED, "the run was stopped")

    def _stop(self) -> None:
        with self._lock:
            self._stopped.set()
            calls = [*self._calls, *([self._stream] if self._stream else [])]
        for call in calls:
            call.cancel()
