"""The calls of lion.v1.LionService: their messages, and how a response becomes results."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Callable, Generic, List, Optional, Type, TypeVar

import grpc
import numpy as np

from . import errors, lion_pb2, options
from .results import (ClassifyResult, ClassScore, EmbedResponse, EmbedResult, FillMaskResult, FloatArray,
                      MaskPrediction, Model, Response, Result, Timing, Token, TokenizeResult, TokenPrediction)

R = TypeVar("R", bound=Result[Any])


@dataclass(frozen=True)
class Method:
    """One call of the service."""

    name: str
    request: Any
    response: Any

    @property
    def path(self) -> str:
        return f"/lion.v1.LionService/{self.name}"


@dataclass(frozen=True)
class Task(Generic[R]):
    """A call that has a result for each input. stream: its form for many requests, where there is one."""

    method: Method
    stream: Optional[Method]
    make_request: Callable[..., Any]  # from its options, without inputs
    result: Type[R]
    value_of: Callable[[Any], Any]  # of a result without an error; None: there is none in it
    make_response: Callable[..., Any] = Response

    def failed(self, error: errors.LionError) -> R:
        return self.result(error, 0, False, None)

    def results(self, response: Any, first_index: int = 0) -> List[R]:
        return [self._result(result, first_index + n) for n, result in enumerate(response.results)]

    def response(self, response: Any) -> Any:
        timing = getattr(response, "timing", None)
        return self.make_response(tuple(self.results(response)), getattr(response, "model", ""),
                                  getattr(response, "model_version", ""), timing and _timing(timing))

    def _result(self, result: Any, index: int) -> R:
        if result.HasField("error"):
            return self._fill(result, errors.from_proto(result.error, index), None)
        try:
            return self._fill(result, None, self.value_of(result))
        except ValueError as error:
            return self._fill(result, errors.LionError(grpc.StatusCode.INTERNAL, str(error), index), None)

    def _fill(self, result: Any, error: Optional[errors.LionError], value: Any) -> R:
        tokens = len(result.tokens) if self.result is TokenizeResult else result.tokens
        return self.result(error, tokens, getattr(result, "truncated", False), value)


def check_result_count(response: Any, inputs: int) -> None:
    if len(response.results) != inputs:
        raise errors.LionError(grpc.StatusCode.INTERNAL,
                               f"the server sent {len(response.results)} results for {inputs} inputs")


def model_of(model: lion_pb2.Model) -> Model:
    values = {f.name: getattr(model, f.name) for f in fields(Model)}
    values["modality"] = options.name_of(lion_pb2.Model.Modality, model.modality) or ""
    values["pooling"] = options.name_of(lion_pb2.Pooling, model.pooling) or ""
    values["image"] = options.image_options(model.image)
    for name in ("labels", "image_mean", "image_std", "tasks"):
        values[name] = tuple(values[name])
    return Model(**values)


def _timing(timing: lion_pb2.Timing) -> Timing:
    return Timing(**{f.name: getattr(timing, f.name) for f in fields(Timing)})


def _rows(result: lion_pb2.EmbedResult) -> FloatArray:
    embedding = result.embedding
    values = np.frombuffer(embedding.data, "<f4") if embedding.data else np.array(embedding.values)
    if embedding.dimensions < 1 or values.size != embedding.rows * embedding.dimensions:
        raise ValueError(f"the server sent {values.size} values for an embedding of {embedding.rows} x "
                         f"{embedding.dimensions}")
    return values.astype(np.float32).reshape(embedding.rows, embedding.dimensions)


def _scores(result: lion_pb2.ClassifyResult) -> List[ClassScore]:
    if not result.classification.scores:
        raise ValueError("the server sent neither a classification nor an error")
    return [ClassScore(score.index, score.label, score.score) for score in result.classification.scores]


def _masks(result: lion_pb2.FillMaskResult) -> List[MaskPrediction]:
    if not result.HasField("filled"):
        raise ValueError("the server sent neither predictions nor an error")
    return [MaskPrediction(mask.position, [TokenPrediction(p.id, p.token, p.probability) for p in mask.predictions])
            for mask in result.filled.masks]


def _tokens(result: lion_pb2.TokenizedInput) -> List[Token]:
    return [Token(token.id, token.text, token.start_byte, token.end_byte, token.type_id) for token in result.tokens]


def _method(name: str) -> Method:
    base = name[:-len("Stream")] if name.endswith("Stream") else name
    return Method(name, getattr(lion_pb2, f"{base}Request"), getattr(lion_pb2, f"{base}Response"))


EMBED = Task(_method("Embed"), _method("EmbedStream"), options.embed_request, EmbedResult, _rows, EmbedResponse)
CLASSIFY = Task(_method("Classify"), _method("ClassifyStream"), options.classify_request, ClassifyResult, _scores)
FILL_MASK = Task(_method("FillMask"), None, options.fill_mask_request, FillMaskResult, _masks)
TOKENIZE = Task(_method("Tokenize"), None, options.tokenize_request, TokenizeResult, _tokens)
LIST_MODELS = _method("ListModels")
GET_MODEL = Method("GetModel", lion_pb2.GetModelRequest, lion_pb2.Model)
