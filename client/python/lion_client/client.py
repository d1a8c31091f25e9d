"""The synchronous client."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple, Union

import grpc

from . import tasks
from .bulk import BulkOptions, BulkPlan
from .connection import Connection, Tls, grpc_timeout, seconds_until
from .errors import from_rpc
from .inputs import InputLike, to_inputs
from .results import ClassifyResult, EmbedResponse, EmbedResult, FillMaskResult, Model, Response, TokenizeResult
from .retry import RetryPolicy
from .steps import Pause, Steps, Unary, run, unary, unary_of_inputs
from .stream import BulkRun

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import ClassifyOptions, EmbedOptions, FillMaskOptions, TokenizeOptions


class Client:
    """One connection to a LION server. Thread-safe.

    address: "host:port", "unix:PATH" or any gRPC target; None: the variable LION_SERVER, or localhost:8001. Does not
        connect: a server that cannot be reached is UNAVAILABLE at the first call.
    timeout: seconds that a call may take, connecting and retries included; None: no limit.
    tls: True or a Tls: encrypted; None: by the variable LION_TLS_CA, or plaintext.
    token, token_file: for a server that wants a bearer token: it, or a file that has it in its first line that is
        neither empty nor begins with "#", and is read again while calls are made. None: of the variables
        LION_TOKEN_FILE and LION_TOKEN, the first that is set. It is sent in plaintext, too.
    retry: which calls are made again, and when.
    max_message_bytes: the largest response accepted; the size of requests is the server's to limit.

    Inputs: see InputLike. Options of calls: see EmbedOptions and its like; what is left out is as the model has it.
    Calls raise LionError, TypeError and ValueError for what cannot be sent, and OSError for files that cannot be read.
    """

    def __init__(self, address: Optional[str] = None, *, timeout: Optional[float] = 60.0,
                 tls: Union[Tls, bool, None] = None, token: Optional[str] = None,
                 token_file: Union[str, os.PathLike[str], None] = None, retry: RetryPolicy = RetryPolicy(),
                 max_message_bytes: int = 256 << 20) -> None:
        self._connection = Connection(address, timeout, tls, token, token_file, retry, max_message_bytes)
        credentials = self._connection.credentials()
        target, options = self._connection.address, self._connection.options
        self._channel = (grpc.insecure_channel(target, options) if credentials is None
                         else grpc.secure_channel(target, credentials, options))
        self._methods: Dict[str, Any] = {}

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def embed(self, inputs: Iterable[InputLike], **options: Unpack[EmbedOptions]) -> EmbedResponse:
        """A vector for each input: embed(["a cat", "a dog"]).vectors is an array [2, dimensions]."""
        response: EmbedResponse = self._call(tasks.EMBED, inputs, dict(options))
        return response

    def classify(self, inputs: Iterable[InputLike], **options: Unpack[ClassifyOptions]) -> Response[ClassifyResult]:
        """Classes and their scores: classify([pathlib.Path("cat.jpg")])[0].label."""
        response: Response[ClassifyResult] = self._call(tasks.CLASSIFY, inputs, dict(options))
        return response

    def fill_mask(self, inputs: Iterable[InputLike], **options: Unpack[FillMaskOptions]) -> Response[FillMaskResult]:
        """What the masks of texts stand for: fill_mask(["the [MASK] sleeps"])[0].masks[0].predictions[0].token."""
        response: Response[FillMaskResult] = self._call(tasks.FILL_MASK, inputs, dict(options))
        return response

    def tokenize(self, inputs: Iterable[InputLike], **options: Unpack[TokenizeOptions]) -> Response[TokenizeResult]:
        """The tokens that the model sees in texts: tokenize(["the cats"])[0].ids."""
        response: Response[TokenizeResult] = self._call(tasks.TOKENIZE, inputs, dict(options))
        return response

    def embed_many(self, inputs: Iterable[InputLike], *, progress: bool = False, total: Optional[int] = None,
                   bulk: BulkOptions = BulkOptions(), **options: Unpack[EmbedOptions]) -> Iterator[EmbedResult]:
        """A result for each of any number of inputs, in their order, with bounded memory: `inputs` may be a generator
        and is read ahead of the results by up to BulkOptions' bounds.

        An input that fails has its error in its own result. Raised is what every further input would meet (no server,
        no such model), after the results before it. progress: a line on standard error, if that is a terminal; total:
        how many inputs there will be, where `inputs` has no length. Leaving the loop cancels what is under way once
        the iterator is closed (contextlib.closing) or forgotten.
        """
        return self._many(tasks.EMBED, inputs, progress, total, bulk, dict(options))

    def classify_many(self, inputs: Iterable[InputLike], *, progress: bool = False, total: Optional[int] = None,
                      bulk: BulkOptions = BulkOptions(),
                      **options: Unpack[ClassifyOptions]) -> Iterator[ClassifyResult]:
        """As embed_many."""
        return self._many(tasks.CLASSIFY, inputs, progress, total, bulk, dict(options))

    def list_models(self, *, timeout: Optional[float] = None) -> List[Model]:
        response = self._run(lambda: unary(tasks.LIST_MODELS, tasks.LIST_MODELS.request()), timeout)
        return [tasks.model_of(model) for model in response.models]

    def get_model(self, model: str = "", *, timeout: Optional[float] = None) -> Model:
        """model: not needed where the server has one."""
        request = tasks.GET_MODEL.request(model=model)
        return tasks.model_of(self._run(lambda: unary(tasks.GET_MODEL, request), timeout))

    def _call(self, task: Any, inputs: Iterable[InputLike], options: Dict[str, Any]) -> Any:
        timeout = options.pop("timeout", None)
        request = task.make_request(**options)
        request.inputs.extend(to_inputs(inputs))
        return task.response(self._run(lambda: unary_of_inputs(task, request), timeout))

    def _many(self, task: Any, inputs: Iterable[InputLike], progress: bool, total: Optional[int], bulk: BulkOptions,
              options: Dict[str, Any]) -> Iterator[Any]:
        plan = BulkPlan(task, inputs, options, bulk, self._connection.patience, total)
        return BulkRun(self, plan, progress).results()

    def _run(self, once: Callable[[], Steps[Any]], timeout: Optional[float]) -> Any:
        deadline = self._connection.deadline(timeout)

        def perform(effect: Any) -> Any:
            if isinstance(effect, Pause):
                return time.sleep(effect.seconds)
            assert isinstance(effect, Unary)
            try:
                return self._method(effect.method)(effect.request, timeout=grpc_timeout(deadline),
                                                   metadata=self._connection.metadata())
            except grpc.RpcError as error:
                raise from_rpc(error) from None

        return run(self._connection.patience.call(once, lambda: seconds_until(deadline)), perform)

    def _start(self, method: tasks.Method, request: Any, timeout: Optional[float]) -> Any:
        """The future of a call."""
        return self._method(method).future(request, timeout=timeout, metadata=self._connection.metadata())

    def _open(self, method: Any, requests: Iterator[Any]) -> Any:
        """The call of a stream."""
        return self._channel.stream_stream(
            method.path, request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString)(requests, metadata=self._connection.metadata())

    def _method(self, method: tasks.Method) -> Any:
        if method.name not in self._methods:
            self._methods[method.name] = self._channel.unary_unary(
                method.path, request_serializer=method.request.SerializeToString,
                response_deserializer=method.response.FromString)
        return self._methods[method.name]
