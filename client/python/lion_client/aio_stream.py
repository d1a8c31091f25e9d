"""stream.py, for asyncio."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, AsyncIterator, Deque, Dict, List, Optional

import grpc
import grpc.aio

from .bulk import END_GRACE_S, GRACE_S, BulkPlan, Group, Grouping
from .errors import ENDED_EARLY, LionError, StreamEnded, from_rpc, from_stream, no_answer, unexpected_answer
from .progress import Progress
from .steps import Pause, Streamed, Unary, run_async
from .tasks import R

if TYPE_CHECKING:
    from .aio import AsyncClient


class Stream:
    """Requests and responses of one stream, in any order, for several tasks."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._waiting: Dict[int, asyncio.Future[Any]] = {}  # by sequence
        self._next = 0
        self._end: Optional[LionError] = None
        self._writing = asyncio.Lock()
        self._write_failed = False
        self._reader = asyncio.ensure_future(self._read())

    async def call(self, request: Any, timeout_s: Optional[float]) -> Any:
        """As stream.Stream.call. Cancelling it while the request is sent cancels the stream."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())  # where nobody waits any more
        async with self._writing:  # sequences are numbered as requests are sent
            if self._end is not None:
                raise StreamEnded.by(self._end)
            self._waiting[self._next] = future
            self._next += 1
            try:
                await self._call.write(request)
            except (grpc.RpcError, asyncio.InvalidStateError):
                self._write_failed = True  # the reader tells the future why
        try:
            response = await asyncio.wait_for(future, None if timeout_s is None else timeout_s + GRACE_S)
        except asyncio.TimeoutError:
            self.cancel()
            raise no_answer(timeout_s) from None
        if response.HasField("error"):
            raise from_stream(response.error)
        return response

    @property
    def has_ended(self) -> bool:
        return self._end is not None

    async def finish(self) -> None:
        """When all is answered: ends the stream in good order, or cancels it after END_GRACE_S."""
        try:
            await self._call.done_writing()
            await asyncio.wait_for(asyncio.shield(self._reader), END_GRACE_S)
        except (grpc.RpcError, asyncio.InvalidStateError, asyncio.TimeoutError):
            pass
        finally:
            self.cancel()

    def cancel(self) -> None:
        self._call.cancel()

    async def _read(self) -> None:
        end = ENDED_EARLY
        try:
            while (response := await self._call.read()) is not grpc.aio.EOF:
                future = self._waiting.pop(response.sequence, None)
                if future is None:
                    end = unexpected_answer(response.sequence)
                    self._call.cancel()
                    break
                if not future.done():
                    future.set_result(response)
        except grpc.RpcError as error:
            end = from_rpc(error)
            if self._write_failed and end.code is grpc.StatusCode.INTERNAL:
                # gRPC's own, which hides what the server ended the stream with: the request alone will tell.
                end = LionError(grpc.StatusCode.CANCELLED, f"the stream was lost: {end.message}")
        except asyncio.CancelledError:
            end = LionError(grpc.StatusCode.CANCELLED, "the stream was cancelled")
        self._end = end
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(StreamEnded.by(end))


class BulkRun:
    """Delivers results in the order of the inputs. Groups are sent by tasks."""

    def __init__(self, client: AsyncClient, plan: BulkPlan[R], progress: bool) -> None:
        self._client = client
        self._plan = plan
        self._progress = progress
        self._stream: Optional[Stream] = None

    async def results(self) -> AsyncIterator[Any]:
        plan = self._plan
        room = asyncio.Semaphore(plan.bulk.max_requests)
        waiting: Deque[asyncio.Task[List[Any]]] = deque()
        groups = self._groups()
        try:
            with Progress(self._progress, plan.total) as progress:
                group: Optional[Group] = await _next(groups)
                while True:
                    while group and len(waiting) < plan.max_groups and not (waiting and waiting[0].done()):
                        waiting.append(asyncio.ensure_future(self._send(group, room)))
                        group = await _next(groups)
                    if not waiting:
                        break
                    for result in await waiting.popleft():
                        progress.input_done(result.ok)
                        yield result
            if self._stream is not None:
                await self._stream.finish()
        finally:
            for task in waiting:
                task.cancel()
            if self._stream is not None:
                self._stream.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _groups(self) -> AsyncIterator[Group]:
        grouping = Grouping(self._plan.bulk)
        async for value in _each(self._plan.inputs):
            for group in grouping.add(value):
                yield group
        for group in grouping.rest():
            yield group

    async def _send(self, group: Group, room: asyncio.Semaphore) -> List[Any]:
        async with room:
            return await run_async(self._plan.call(*group), self._perform)

    async def _perform(self, effect: Any) -> Any:
        if isinstance(effect, Streamed):
            if self._stream is None or self._stream.has_ended:
                self._stream = Stream(self._client._open(self._plan.task.stream))
            return await self._stream.call(effect.request, self._plan.bulk.timeout_s)
        if isinstance(effect, Unary):
            return await self._client._unary(effect, self._plan.bulk.timeout_s)
        if isinstance(effect, Pause):
            return await asyncio.sleep(effect.seconds)
        return await asyncio.to_thread(effect.function)


async def _next(groups: AsyncIterator[Group]) -> Optional[Group]:
    async for group in groups:
        return group
    return None


async def _each(values: Any) -> AsyncIterator[Any]:
    if hasattr(values, "__aiter__"):
        async for value in values:
            yield value
    else:
        for value in values:
            yield value
