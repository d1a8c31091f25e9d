"""The asynchronous client."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, AsyncIterator, Awaitable, Callable, Dict, Iterable, List, Optional, Union

import grpc
import grpc.aio

from . import tasks
from .aio_stream import BulkRun
from .bulk import BulkOptions, BulkPlan, Inputs
from .connection import Connection, Tls, grpc_timeout, seconds_until
from .errors import from_rpc
from .inputs import InputLike, to_inputs
from .results import ClassifyResult, EmbedResponse, EmbedResult, FillMaskResult, Model, Response, TokenizeResult
from .retry import RetryPolicy
from .steps import Pause, Steps, Unary, run_async, unary, unary_of_inputs

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import ClassifyOptions, EmbedOptions, FillMaskOptions, TokenizeOptions


class AsyncClient:
    """Client, for asyncio: the same arguments, calls, results and errors. Make and use it in one running event loop.
    Cancelling a task cancels its call. Files are read in threads."""

    def __init__(self, address: Optional[str] = None, *, timeout: Optional[float] = 60.0,
                 tls: Union[Tls, bool, None] = None, token: Optional[str] = None,
                 token_file: Union[str, os.PathLike[str], None] = None, retry: RetryPolicy = RetryPolicy(),
                 max_message_bytes: int = 256 << 20) -> None:
        self._connection = Connection(address, timeout, tls, token, token_file, retry, max_message_bytes)
        credentials = self._connection.credentials()
        target, options = self._connection.address, self._connection.options
        self._channel = (grpc.aio.insecure_channel(target, options) if credentials is None
                         else grpc.aio.secure_channel(target, credentials, options))
        self._methods: Dict[str, Any] = {}

    async def close(self) -> None:
        await self._channel.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def embed(self, inputs: Iterable[InputLike], **options: Unpack[EmbedOptions]) -> EmbedResponse:
        response: EmbedResponse = await self._call(tasks.EMBED, inputs, dict(options))
        return response

    async def classify(self, inputs: Iterable[InputLike],
                       **options: Unpack[ClassifyOptions]) -> Response[ClassifyResult]:
        response: Response[ClassifyResult] = await self._call(tasks.CLASSIFY, inputs, dict(options))
        return response

    async def fill_mask(self, inputs: Iterable[InputLike],
                        **options: Unpack[FillMaskOptions]) -> Response[FillMaskResult]:
        response: Response[FillMaskResult] = await self._call(tasks.FILL_MASK, inputs, dict(options))
        return response

    async def tokenize(self, inputs: Iterable[InputLike],
                       **options: Unpack[TokenizeOptions]) -> Response[TokenizeResult]:
        response: Response[TokenizeResult] = await self._call(tasks.TOKENIZE, inputs, dict(options))
        return response

    def embed_many(self, inputs: Inputs, *, progress: bool = False, total: Optional[int] = None,
                   bulk: BulkOptions = BulkOptions(), **options: Unpack[EmbedOptions]) -> AsyncIterator[EmbedResult]:
        """As Client.embed_many. `inputs` may be an asynchronous iterable. Leaving the loop cancels what is under way
        once the iterator is closed: contextlib.aclosing (Python 3.10) or its aclose()."""
        return self._many(tasks.EMBED, inputs, progress, total, bulk, dict(options))

    def classify_many(self, inputs: Inputs, *, progress: bool = False, total: Optional[int] = None,
                      bulk: BulkOptions = BulkOptions(),
                      **options: Unpack[ClassifyOptions]) -> AsyncIterator[ClassifyResult]:
        """As embed_many."""
        return self._many(tasks.CLASSIFY, inputs, progress, total, bulk, dict(options))

    async def list_models(self, *, timeout: Optional[float] = None) -> List[Model]:
        response = await self._run(lambda: unary(tasks.LIST_MODELS, tasks.LIST_MODELS.request()), timeout)
        return [tasks.model_of(model) for model in response.models]

    async def get_model(self, model: str = "", *, timeout: Optional[float] = None) -> Model:
        request = tasks.GET_MODEL.request(model=model)
        return tasks.model_of(await self._run(lambda: unary(tasks.GET_MODEL, request), timeout))

    async def _call(self, task: Any, inputs: Iterable[InputLike], options: Dict[str, Any]) -> Any:
        timeout = options.pop("timeout", None)
        request = task.make_request(**options)
        request.inputs.extend(await asyncio.to_thread(to_inputs, inputs))
        return task.response(await self._run(lambda: unary_of_inputs(task, request), timeout))

    def _many(self, task: Any, inputs: Inputs, progress: bool, total: Optional[int], bulk: BulkOptions,
              options: Dict[str, Any]) -> AsyncIterator[Any]:
        plan = BulkPlan(task, inputs, options, bulk, self._connection.patience, total)
        return BulkRun(self, plan, progress).results()

    def _run(self, once: Callable[[], Steps[Any]], timeout: Optional[float]) -> Awaitable[Any]:
        deadline = self._connection.deadline(timeout)

        async def perform(effect: Any) -> Any:
            if isinstance(effect, Pause):
                return await asyncio.sleep(effect.seconds)
            assert isinstance(effect, Unary)
            return await self._unary(effect, grpc_timeout(deadline))

        return run_async(self._connection.patience.call(once, lambda: seconds_until(deadline)), perform)

    async def _unary(self, effect: Unary, timeout: Optional[float]) -> Any:
        method = effect.method
        if method.name not in self._methods:
            self._methods[method.name] = self._channel.unary_unary(
                method.path, request_serializer=method.request.SerializeToString,
                response_deserializer=method.response.FromString)
        try:
            return await self._methods[method.name](effect.request, timeout=timeout,
                                                    metadata=self._connection.metadata())
        except grpc.RpcError as error:
            raise from_rpc(error) from None

    def _open(self, method: Any) -> Any:
        """The call of a stream."""
        return self._channel.stream_stream(
            method.path, request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString)(metadata=self._connection.metadata())
