"""What calls return: small dataclasses, and NumPy arrays for what is numbers. Names and units: lion.proto."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Iterator, List, Optional, Sequence, Tuple, TypeVar, Union, overload

import numpy as np
import numpy.typing as npt

from .errors import LionError
from .options import ImageOptions

T = TypeVar("T")
FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Timing:
    """Where the time of a call went, in the server, and what it was batched with."""

    preprocess_ns: int
    queue_ns: int
    compute_ns: int
    total_ns: int
    batch_inputs: int
    batch_tokens: int


@dataclass(frozen=True)
class ClassScore:
    index: int
    label: str
    score: float  # probability; logit with raw_scores; the value itself of a regression head


@dataclass(frozen=True)
class TokenPrediction:
    id: int
    token: str
    probability: float


@dataclass(frozen=True)
class MaskPrediction:
    position: int  # of the mask, in tokens
    predictions: List[TokenPrediction]  # most probable first


@dataclass(frozen=True)
class Token:
    id: int
    text: str
    start_byte: int  # in the UTF-8 of its own text; end exclusive; 0, 0 for special tokens
    end_byte: int
    type_id: int


@dataclass(frozen=True, eq=False)
class Result(Generic[T]):
    """Of one input. `error` is None, or why there is no result: then it is raised by what would give one."""

    error: Optional[LionError]
    tokens: int  # what the input became, special tokens included
    truncated: bool
    _value: Optional[T] = field(repr=False)

    @property
    def ok(self) -> bool:
        return self.error is None

    def _get(self) -> T:
        if self.error is not None:
            raise self.error
        assert self._value is not None
        return self._value


class EmbedResult(Result[FloatArray]):
    @property
    def rows(self) -> FloatArray:
        """[1, dimensions], or [tokens, dimensions] with pooling "none"."""
        return self._get()

    @property
    def vector(self) -> FloatArray:
        """[dimensions]. ValueError where there are several, with pooling "none"."""
        rows = self._get()
        if len(rows) != 1:
            raise ValueError(f"the input has {len(rows)} vectors, one for each token: .rows has them")
        vector: FloatArray = rows[0]
        return vector


class ClassifyResult(Result[List[ClassScore]]):
    @property
    def scores(self) -> List[ClassScore]:
        """Highest first."""
        return self._get()

    @property
    def label(self) -> str:
        """Of the highest score."""
        return self._get()[0].label

    @property
    def score(self) -> float:
        """The highest."""
        return self._get()[0].score


class FillMaskResult(Result[List[MaskPrediction]]):
    @property
    def masks(self) -> List[MaskPrediction]:
        return self._get()


class TokenizeResult(Result[List[Token]]):
    @property
    def pieces(self) -> List[Token]:
        return self._get()

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        return np.array([token.id for token in self._get()], np.int64)


R = TypeVar("R", bound=Result[Any])


@dataclass(frozen=True, eq=False)
class Response(Sequence[R]):
    """The results of a call, one per input and in their order: a sequence of them."""

    results: Tuple[R, ...]
    model: str
    model_version: str
    timing: Optional[Timing]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[R]:
        return iter(self.results)

    @overload
    def __getitem__(self, index: int) -> R: ...

    @overload
    def __getitem__(self, index: slice) -> Tuple[R, ...]: ...

    def __getitem__(self, index: Union[int, slice]) -> Union[R, Tuple[R, ...]]:
        return self.results[index]


class EmbedResponse(Response[EmbedResult]):
    @property
    def vectors(self) -> FloatArray:
        """[inputs, dimensions]. Raises the first error of an input; ValueError as EmbedResult.vector."""
        return np.stack([result.vector for result in self.results])


@dataclass(frozen=True)
class Model:
    """What the server says of a model: the message Model of lion.proto tells each field."""

    name: str
    version: str
    modality: str  # "vision" or "text"
    variant: str
    patch_order: str
    parameters: int
    embedding_dimensions: int
    labels: Tuple[str, ...]
    masked_lm: bool
    max_tokens: int
    image_size: int
    patch_size: int
    device: str
    compute_type: str
    weight_bytes: int
    bytes_per_token: int
    weights: str
    pooling: str
    normalize: bool
    image: ImageOptions
    image_mean: Tuple[float, ...]
    image_std: Tuple[float, ...]
    max_image_pixels: int
    tasks: Tuple[str, ...]
