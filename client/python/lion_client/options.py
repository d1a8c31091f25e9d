"""What calls can be asked for. Unset is what the model, or the server, does of its own accord."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Literal, Optional, TypedDict

from . import lion_pb2

Resize = Literal["center_crop", "stretch", "long_side", "none"]
Pooling = Literal["mean", "cls", "pooler", "max", "last", "none"]
Truncation = Literal["none", "end", "start"]


@dataclass(frozen=True)
class ImageOptions:
    """What the server does with an encoded image: see the message ImageOptions of lion.proto."""

    resize: Optional[Resize] = None
    size: int = 0
    apply_exif_orientation: Optional[bool] = None
    crop_ratio: float = 0.0
    allow_truncated: bool = False


class CallOptions(TypedDict, total=False):
    model: str  # not needed where the server has one
    timeout: Optional[float]  # seconds for the whole call, retries included; None: the client's; math.inf: none
    partial_results: bool  # a bad input is an error in its own result instead of one of the call


class InferenceOptions(CallOptions, total=False):
    truncation: Optional[Truncation]  # of texts that are too long; "none": they are refused
    priority: int  # 0 is normal; higher runs sooner; at most 9


class EmbedOptions(InferenceOptions, total=False):
    pooling: Optional[Pooling]
    normalize: Optional[bool]  # divide by the L2 norm
    dimensions: int  # keep the first so many; 0: all
    image: Optional[ImageOptions]


class ClassifyOptions(InferenceOptions, total=False):
    top_k: int  # 0: all
    raw_scores: bool  # logits instead of probabilities
    image: Optional[ImageOptions]


class FillMaskOptions(InferenceOptions, total=False):
    top_k: int  # 0: 5


class TokenizeOptions(CallOptions, total=False):
    no_special_tokens: bool


def embed_request(*, pooling: Optional[str] = None, normalize: Optional[bool] = None, dimensions: int = 0,
                  model: str = "", **common: Any) -> lion_pb2.EmbedRequest:
    request = lion_pb2.EmbedRequest(model=model, dimensions=dimensions, packed_bytes=True, options=_common(**common),
                                    pooling=_number(lion_pb2.Pooling, "pooling", pooling))  # type: ignore[arg-type]
    if normalize is not None:
        request.normalize = normalize
    return request


def classify_request(*, top_k: int = 0, raw_scores: bool = False, model: str = "",
                     **common: Any) -> lion_pb2.ClassifyRequest:
    return lion_pb2.ClassifyRequest(model=model, top_k=top_k, raw_scores=raw_scores, options=_common(**common))


def fill_mask_request(*, top_k: int = 0, model: str = "", **common: Any) -> lion_pb2.FillMaskRequest:
    return lion_pb2.FillMaskRequest(model=model, top_k=top_k, options=_common(**common))


def tokenize_request(*, no_special_tokens: bool = False, model: str = "",
                     partial_results: bool = False) -> lion_pb2.TokenizeRequest:
    return lion_pb2.TokenizeRequest(model=model, no_special_tokens=no_special_tokens, partial_results=partial_results)


def image_options(options: lion_pb2.ImageOptions) -> ImageOptions:
    exif = options.apply_exif_orientation if options.HasField("apply_exif_orientation") else None
    resize: Any = name_of(lion_pb2.ImageOptions.Resize, options.resize)
    return ImageOptions(resize, options.size, exif, options.crop_ratio, options.allow_truncated)


def name_of(enum: Any, number: int) -> Optional[str]:
    """POOLING_MEAN: "mean"; 0, and what this client does not know: None."""
    if number == 0 or number not in enum.values():
        return None
    return str(enum.Name(number)).split("_", 1)[1].lower()


def _number(enum: Any, option: str, name: Optional[str]) -> int:
    if name is None:
        return 0
    names: Dict[Optional[str], int] = {name_of(enum, number): number for number in enum.values() if number}
    if name not in names:
        raise ValueError(f"{option} is {name!r}; expected one of {sorted(map(str, names))}")
    return names[name]


def _common(*, truncation: Optional[str] = None, priority: int = 0, partial_results: bool = False,
            image: Optional[ImageOptions] = None) -> lion_pb2.RequestOptions:
    number: Any = _number(lion_pb2.Truncation, "truncation", truncation)
    options = lion_pb2.RequestOptions(truncation=number, priority=priority, partial_results=partial_results)
    if image is not None:
        resize: Any = _number(lion_pb2.ImageOptions.Resize, "resize", image.resize)
        options.image.CopyFrom(lion_pb2.ImageOptions(resize=resize, size=image.size, crop_ratio=image.crop_ratio,
                                                     allow_truncated=image.allow_truncated))
        if image.apply_exif_orientation is not None:
            options.image.apply_exif_orientation = image.apply_exif_orientation
    return options
