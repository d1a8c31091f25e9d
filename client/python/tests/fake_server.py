"""A LionService in this process, whose answers a test writes."""

import asyncio
import concurrent.futures
import contextlib
import os
from unittest import mock

import grpc

from lion_client import lion_pb2 as pb

METHODS = {name: (getattr(pb, f"{name}Request"), stream) for name, stream in (
    ("Embed", "EmbedStream"), ("Classify", "ClassifyStream"), ("FillMask", None), ("Tokenize", None),
    ("ListModels", None), ("GetModel", None))}
# One for all tests: gRPC 1.51 writes tracebacks when loops come and go.
LOOP = asyncio.new_event_loop()


class FakeServer:
    """`calls`: handlers by the name of the call, (request, context) to response; of a stream, (requests, context) to
    responses. Others are UNIMPLEMENTED. `metadata` is of the last call."""

    def __init__(self, address="127.0.0.1:0", credentials=None, **calls):
        self.calls = calls
        self.metadata = {}
        handlers = {}
        for name, (request, stream) in METHODS.items():
            handlers[name] = grpc.unary_unary_rpc_method_handler(
                self._handler(name), request.FromString, lambda response: response.SerializeToString())
            if stream:
                handlers[stream] = grpc.stream_stream_rpc_method_handler(
                    self._stream_handler(stream), request.FromString, lambda response: response.SerializeToString())
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(16))
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("lion.v1.LionService", handlers)])
        if credentials:
            port = self._server.add_secure_port(address, credentials)
        else:
            port = self._server.add_insecure_port(address)
        self.address = address if address.startswith("unix:") else f"127.0.0.1:{port}"
        self._server.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.stop(0).wait()

    def _handler(self, name):
        def handle(request, context):
            self.metadata = dict(context.invocation_metadata())
            if name not in self.calls:
                context.abort(grpc.StatusCode.UNIMPLEMENTED, name)
            return self.calls[name](request, context)
        return handle

    def _stream_handler(self, name):
        def handle(requests, context):
            self.metadata = dict(context.invocation_metadata())
            if name not in self.calls:
                context.abort(grpc.StatusCode.UNIMPLEMENTED, name)
            yield from self.calls[name](requests, context)
        return handle


def abort(context, code, message, pushback_ms=None):
    if pushback_ms is not None:
        context.set_trailing_metadata((("grpc-retry-pushback-ms", str(pushback_ms)),))
    context.abort(code, message)


def vector_of(text):
    """What the fake model makes of a text: the number in it, and its length."""
    return [float(text.strip("x") or 0), float(len(text))]


def embed(request, _=None):
    """Texts that are numbers are embedded; "bad" is INVALID_ARGUMENT for itself."""
    response = pb.EmbedResponse(model="fake", model_version="3", timing=pb.Timing(total_ns=7, batch_inputs=2))
    for value in request.inputs:
        if value.text == "bad":
            error = pb.Error(code=grpc.StatusCode.INVALID_ARGUMENT.value[0], message="the text is bad")
            response.results.add(error=error)
        else:
            result = response.results.add(tokens=len(value.text))
            result.embedding.rows, result.embedding.dimensions = 1, 2
            result.embedding.values.extend(vector_of(value.text))
    return response


def error_response(code, message):
    return pb.EmbedResponse(error=pb.Error(code=code.value[0], message=message))


def answers(requests, answer):
    """One response of `answer` for each request, in their order."""
    for sequence, request in enumerate(requests):
        response = answer(request)
        response.sequence = sequence
        yield response


def embed_stream(requests, _=None):
    yield from answers(requests, embed)


@contextlib.contextmanager
def environment(**variables):
    """The environment without LION_ variables, and with these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LION_")}
    with mock.patch.dict(os.environ, {**kept, **variables}, clear=True):
        yield
