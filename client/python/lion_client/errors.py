"""What a call fails with."""

from __future__ import annotations

import re
from typing import Any, Iterable, Optional, Tuple

import grpc

from . import lion_pb2

_OF_INPUT = re.compile(r"input (\d+): ")
_CODES = {code.value[0]: code for code in grpc.StatusCode}
# A response in a stream has no trailing metadata: a refused request is sent again after this.
STREAM_PUSHBACK_S = 0.1


class LionError(Exception):
    """A call, or one input of it, failed. The codes are listed at LionService in lion.proto.

    code: a grpc.StatusCode.
    message: what the server (or gRPC) said, unchanged.
    input_index: the number, from 0, of the input that is to blame among those given; None: the call as a whole.
    pushback_s: seconds that the server asked to wait before the call is made again; negative: it asked not to;
        None: it said nothing.
    """

    def __init__(self, code: grpc.StatusCode, message: str, input_index: Optional[int] = None,
                 pushback_s: Optional[float] = None) -> None:
        super().__init__(code, message, input_index, pushback_s)
        self.code = code
        self.message = message
        self.input_index = input_index
        self.pushback_s = pushback_s

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"

    def of_input(self, index: int) -> LionError:
        return LionError(self.code, self.message, index, self.pushback_s)


class StreamEnded(LionError):
    """The end of a stream that left a request without an answer: the reason may lie in another request."""

    @classmethod
    def by(cls, end: LionError) -> StreamEnded:
        return cls(end.code, end.message, None, end.pushback_s)


# What a stream ends with although the server says OK.
ENDED_EARLY = LionError(grpc.StatusCode.UNAVAILABLE, "the server ended the stream before it had answered everything")


def unexpected_answer(sequence: int) -> LionError:
    return LionError(grpc.StatusCode.INTERNAL,
                     f"the server sent an answer to request {sequence}, which is not waiting for one")


def no_answer(timeout_s: Optional[float]) -> LionError:
    return LionError(grpc.StatusCode.DEADLINE_EXCEEDED, f"no answer within {timeout_s} s")


def is_too_large(error: LionError) -> bool:
    """A message over the byte limit of either side, which gRPC found."""
    return error.code is grpc.StatusCode.RESOURCE_EXHAUSTED and error.pushback_s is None


def code_of(number: int) -> grpc.StatusCode:
    return _CODES.get(number, grpc.StatusCode.UNKNOWN)


def from_proto(error: lion_pb2.Error, index: Optional[int] = None) -> LionError:
    """Code 0 in an error is the server's fault."""
    if error.code == 0:
        return LionError(grpc.StatusCode.INTERNAL, "the server sent an error with code 0 (OK)", index)
    return LionError(code_of(error.code), error.message, _index_in(error.message) if index is None else index)


def from_stream(error: lion_pb2.Error) -> LionError:
    """`error` is the response to a request in a stream."""
    result = from_proto(error)
    if result.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        result.pushback_s = STREAM_PUSHBACK_S
    return result


def from_rpc(error: Any) -> LionError:
    """`error`: a grpc.RpcError that is also a call, or a grpc.aio.AioRpcError."""
    message = error.details() or ""
    return LionError(error.code(), message, _index_in(message), _pushback(error.trailing_metadata()))


def _index_in(message: str) -> Optional[int]:
    found = _OF_INPUT.match(message)
    return int(found[1]) if found else None


def _pushback(trailing_metadata: Optional[Iterable[Tuple[str, Any]]]) -> Optional[float]:
    for key, value in trailing_metadata or ():
        if key == "grpc-retry-pushback-ms":
            # As gRPC's own retries have it: what is no number means "do not try again".
            return int(value) / 1000 if re.fullmatch(r"\d{1,18}", str(value)) else -1.0
    return None
