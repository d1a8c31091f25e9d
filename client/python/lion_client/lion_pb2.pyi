from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
POOLING_CLS: Pooling
POOLING_LAST: Pooling
POOLING_MAX: Pooling
POOLING_MEAN: Pooling
POOLING_NONE: Pooling
POOLING_POOLER: Pooling
POOLING_UNSPECIFIED: Pooling
TRUNCATION_END: Truncation
TRUNCATION_NONE: Truncation
TRUNCATION_START: Truncation
TRUNCATION_UNSPECIFIED: Truncation

class ClassScore(_message.Message):
    __slots__ = ["index", "label", "score"]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    index: int
    label: str
    score: float
    def __init__(self, index: _Optional[int] = ..., label: _Optional[str] = ..., score: _Optional[float] = ...) -> None: ...

class Classification(_message.Message):
    __slots__ = ["scores"]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    scores: _containers.RepeatedCompositeFieldContainer[ClassScore]
    def __init__(self, scores: _Optional[_Iterable[_Union[ClassScore, _Mapping]]] = ...) -> None: ...

class ClassifyRequest(_message.Message):
    __slots__ = ["inputs", "model", "options", "raw_scores", "request_id", "top_k"]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    RAW_SCORES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    inputs: _containers.RepeatedCompositeFieldContainer[Input]
    model: str
    options: RequestOptions
    raw_scores: bool
    request_id: str
    top_k: int
    def __init__(self, model: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[Input, _Mapping]]] = ..., options: _Optional[_Union[RequestOptions, _Mapping]] = ..., top_k: _Optional[int] = ..., raw_scores: bool = ..., request_id: _Optional[str] = ...) -> None: ...

class ClassifyResponse(_message.Message):
    __slots__ = ["error", "model", "model_version", "request_id", "results", "sequence", "timing"]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    error: Error
    model: str
    model_version: str
    request_id: str
    results: _containers.RepeatedCompositeFieldContainer[ClassifyResult]
    sequence: int
    timing: Timing
    def __init__(self, model: _Optional[str] = ..., results: _Optional[_Iterable[_Union[ClassifyResult, _Mapping]]] = ..., timing: _Optional[_Union[Timing, _Mapping]] = ..., request_id: _Optional[str] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., sequence: _Optional[int] = ..., model_version: _Optional[str] = ...) -> None: ...

class ClassifyResult(_message.Message):
    __slots__ = ["classification", "error", "tokens", "truncated"]
    CLASSIFICATION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    classification: Classification
    error: Error
    tokens: int
    truncated: bool
    def __init__(self, classification: _Optional[_Union[Classification, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., tokens: _Optional[int] = ..., truncated: bool = ...) -> None: ...

class EmbedRequest(_message.Message):
    __slots__ = ["dimensions", "inputs", "model", "normalize", "options", "packed_bytes", "pooling", "request_id"]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    PACKED_BYTES_FIELD_NUMBER: _ClassVar[int]
    POOLING_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    dimensions: int
    inputs: _containers.RepeatedCompositeFieldContainer[Input]
    model: str
    normalize: bool
    options: RequestOptions
    packed_bytes: bool
    pooling: Pooling
    request_id: str
    def __init__(self, model: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[Input, _Mapping]]] = ..., options: _Optional[_Union[RequestOptions, _Mapping]] = ..., pooling: _Optional[_Union[Pooling, str]] = ..., normalize: bool = ..., dimensions: _Optional[int] = ..., request_id: _Optional[str] = ..., packed_bytes: bool = ...) -> None: ...

class EmbedResponse(_message.Message):
    __slots__ = ["error", "model", "model_version", "request_id", "results", "sequence", "timing"]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    error: Error
    model: str
    model_version: str
    request_id: str
    results: _containers.RepeatedCompositeFieldContainer[EmbedResult]
    sequence: int
    timing: Timing
    def __init__(self, model: _Optional[str] = ..., results: _Optional[_Iterable[_Union[EmbedResult, _Mapping]]] = ..., timing: _Optional[_Union[Timing, _Mapping]] = ..., request_id: _Optional[str] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., sequence: _Optional[int] = ..., model_version: _Optional[str] = ...) -> None: ...

class EmbedResult(_message.Message):
    __slots__ = ["embedding", "error", "tokens", "truncated"]
    EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    embedding: Embedding
    error: Error
    tokens: int
    truncated: bool
    def __init__(self, embedding: _Optional[_Union[Embedding, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., tokens: _Optional[int] = ..., truncated: bool = ...) -> None: ...

class Embedding(_message.Message):
    __slots__ = ["data", "dimensions", "rows", "values"]
    DATA_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    dimensions: int
    rows: int
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, values: _Optional[_Iterable[float]] = ..., rows: _Optional[int] = ..., dimensions: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ["code", "message"]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class FillMaskRequest(_message.Message):
    __slots__ = ["inputs", "model", "options", "request_id", "top_k"]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    inputs: _containers.RepeatedCompositeFieldContainer[Input]
    model: str
    options: RequestOptions
    request_id: str
    top_k: int
    def __init__(self, model: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[Input, _Mapping]]] = ..., options: _Optional[_Union[RequestOptions, _Mapping]] = ..., top_k: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class FillMaskResponse(_message.Message):
    __slots__ = ["model", "model_version", "request_id", "results", "timing"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    model: str
    model_version: str
    request_id: str
    results: _containers.RepeatedCompositeFieldContainer[FillMaskResult]
    timing: Timing
    def __init__(self, model: _Optional[str] = ..., results: _Optional[_Iterable[_Union[FillMaskResult, _Mapping]]] = ..., timing: _Optional[_Union[Timing, _Mapping]] = ..., request_id: _Optional[str] = ..., model_version: _Optional[str] = ...) -> None: ...

class FillMaskResult(_message.Message):
    __slots__ = ["error", "filled", "tokens", "truncated"]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FILLED_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    error: Error
    filled: FilledMasks
    tokens: int
    truncated: bool
    def __init__(self, filled: _Optional[_Union[FilledMasks, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., tokens: _Optional[int] = ..., truncated: bool = ...) -> None: ...

class FilledMasks(_message.Message):
    __slots__ = ["masks"]
    MASKS_FIELD_NUMBER: _ClassVar[int]
    masks: _containers.RepeatedCompositeFieldContainer[MaskPrediction]
    def __init__(self, masks: _Optional[_Iterable[_Union[MaskPrediction, _Mapping]]] = ...) -> None: ...

class GetModelRequest(_message.Message):
    __slots__ = ["model"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: str
    def __init__(self, model: _Optional[str] = ...) -> None: ...

class ImageOptions(_message.Message):
    __slots__ = ["allow_truncated", "apply_exif_orientation", "crop_ratio", "resize", "size"]
    class Resize(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    ALLOW_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    APPLY_EXIF_ORIENTATION_FIELD_NUMBER: _ClassVar[int]
    CROP_RATIO_FIELD_NUMBER: _ClassVar[int]
    RESIZE_CENTER_CROP: ImageOptions.Resize
    RESIZE_FIELD_NUMBER: _ClassVar[int]
    RESIZE_LONG_SIDE: ImageOptions.Resize
    RESIZE_NONE: ImageOptions.Resize
    RESIZE_STRETCH: ImageOptions.Resize
    RESIZE_UNSPECIFIED: ImageOptions.Resize
    SIZE_FIELD_NUMBER: _ClassVar[int]
    allow_truncated: bool
    apply_exif_orientation: bool
    crop_ratio: float
    resize: ImageOptions.Resize
    size: int
    def __init__(self, resize: _Optional[_Union[ImageOptions.Resize, str]] = ..., size: _Optional[int] = ..., apply_exif_orientation: bool = ..., crop_ratio: _Optional[float] = ..., allow_truncated: bool = ...) -> None: ...

class Input(_message.Message):
    __slots__ = ["image", "pixels", "text", "text_pair", "tokens"]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    PIXELS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TEXT_PAIR_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    image: bytes
    pixels: PixelTensor
    text: str
    text_pair: TextPair
    tokens: TokenIds
    def __init__(self, image: _Optional[bytes] = ..., pixels: _Optional[_Union[PixelTensor, _Mapping]] = ..., text: _Optional[str] = ..., text_pair: _Optional[_Union[TextPair, _Mapping]] = ..., tokens: _Optional[_Union[TokenIds, _Mapping]] = ...) -> None: ...

class ListModelsRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ["models"]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[Model]
    def __init__(self, models: _Optional[_Iterable[_Union[Model, _Mapping]]] = ...) -> None: ...

class MaskPrediction(_message.Message):
    __slots__ = ["position", "predictions"]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    PREDICTIONS_FIELD_NUMBER: _ClassVar[int]
    position: int
    predictions: _containers.RepeatedCompositeFieldContainer[TokenPrediction]
    def __init__(self, position: _Optional[int] = ..., predictions: _Optional[_Iterable[_Union[TokenPrediction, _Mapping]]] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ["bytes_per_token", "compute_type", "device", "embedding_dimensions", "image", "image_mean", "image_size", "image_std", "labels", "masked_lm", "max_image_pixels", "max_tokens", "modality", "name", "normalize", "parameters", "patch_order", "patch_size", "pooling", "tasks", "variant", "version", "weight_bytes", "weights"]
    class Modality(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    BYTES_PER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_TYPE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    IMAGE_MEAN_FIELD_NUMBER: _ClassVar[int]
    IMAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    IMAGE_STD_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    MASKED_LM_FIELD_NUMBER: _ClassVar[int]
    MAX_IMAGE_PIXELS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MODALITY_FIELD_NUMBER: _ClassVar[int]
    MODALITY_TEXT: Model.Modality
    MODALITY_UNSPECIFIED: Model.Modality
    MODALITY_VISION: Model.Modality
    NAME_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    PATCH_ORDER_FIELD_NUMBER: _ClassVar[int]
    PATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    POOLING_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_BYTES_FIELD_NUMBER: _ClassVar[int]
    bytes_per_token: int
    compute_type: str
    device: str
    embedding_dimensions: int
    image: ImageOptions
    image_mean: _containers.RepeatedScalarFieldContainer[float]
    image_size: int
    image_std: _containers.RepeatedScalarFieldContainer[float]
    labels: _containers.RepeatedScalarFieldContainer[str]
    masked_lm: bool
    max_image_pixels: int
    max_tokens: int
    modality: Model.Modality
    name: str
    normalize: bool
    parameters: int
    patch_order: str
    patch_size: int
    pooling: Pooling
    tasks: _containers.RepeatedScalarFieldContainer[str]
    variant: str
    version: str
    weight_bytes: int
    weights: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., modality: _Optional[_Union[Model.Modality, str]] = ..., variant: _Optional[str] = ..., patch_order: _Optional[str] = ..., parameters: _Optional[int] = ..., embedding_dimensions: _Optional[int] = ..., labels: _Optional[_Iterable[str]] = ..., masked_lm: bool = ..., max_tokens: _Optional[int] = ..., image_size: _Optional[int] = ..., patch_size: _Optional[int] = ..., device: _Optional[str] = ..., compute_type: _Optional[str] = ..., weight_bytes: _Optional[int] = ..., bytes_per_token: _Optional[int] = ..., weights: _Optional[str] = ..., pooling: _Optional[_Union[Pooling, str]] = ..., normalize: bool = ..., image: _Optional[_Union[ImageOptions, _Mapping]] = ..., image_mean: _Optional[_Iterable[float]] = ..., image_std: _Optional[_Iterable[float]] = ..., max_image_pixels: _Optional[int] = ..., tasks: _Optional[_Iterable[str]] = ...) -> None: ...

class PixelTensor(_message.Message):
    __slots__ = ["data", "height", "type", "width"]
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    DATA_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FLOAT32: PixelTensor.Type
    TYPE_UINT8: PixelTensor.Type
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    height: int
    type: PixelTensor.Type
    width: int
    def __init__(self, height: _Optional[int] = ..., width: _Optional[int] = ..., data: _Optional[bytes] = ..., type: _Optional[_Union[PixelTensor.Type, str]] = ...) -> None: ...

class RequestOptions(_message.Message):
    __slots__ = ["image", "partial_results", "priority", "timeout_ms", "truncation"]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_RESULTS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATION_FIELD_NUMBER: _ClassVar[int]
    image: ImageOptions
    partial_results: bool
    priority: int
    timeout_ms: int
    truncation: Truncation
    def __init__(self, truncation: _Optional[_Union[Truncation, str]] = ..., priority: _Optional[int] = ..., partial_results: bool = ..., image: _Optional[_Union[ImageOptions, _Mapping]] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class TextPair(_message.Message):
    __slots__ = ["first", "second"]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SECOND_FIELD_NUMBER: _ClassVar[int]
    first: str
    second: str
    def __init__(self, first: _Optional[str] = ..., second: _Optional[str] = ...) -> None: ...

class Timing(_message.Message):
    __slots__ = ["batch_inputs", "batch_tokens", "compute_ns", "preprocess_ns", "queue_ns", "total_ns"]
    BATCH_INPUTS_FIELD_NUMBER: _ClassVar[int]
    BATCH_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_NS_FIELD_NUMBER: _ClassVar[int]
    PREPROCESS_NS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_NS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_NS_FIELD_NUMBER: _ClassVar[int]
    batch_inputs: int
    batch_tokens: int
    compute_ns: int
    preprocess_ns: int
    queue_ns: int
    total_ns: int
    def __init__(self, preprocess_ns: _Optional[int] = ..., queue_ns: _Optional[int] = ..., compute_ns: _Optional[int] = ..., total_ns: _Optional[int] = ..., batch_inputs: _Optional[int] = ..., batch_tokens: _Optional[int] = ...) -> None: ...

class TokenIds(_message.Message):
    __slots__ = ["ids", "type_ids"]
    IDS_FIELD_NUMBER: _ClassVar[int]
    TYPE_IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    type_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ..., type_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class TokenPrediction(_message.Message):
    __slots__ = ["id", "probability", "token"]
    ID_FIELD_NUMBER: _ClassVar[int]
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    id: int
    probability: float
    token: str
    def __init__(self, id: _Optional[int] = ..., token: _Optional[str] = ..., probability: _Optional[float] = ...) -> None: ...

class TokenizeRequest(_message.Message):
    __slots__ = ["inputs", "model", "no_special_tokens", "partial_results"]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    NO_SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_RESULTS_FIELD_NUMBER: _ClassVar[int]
    inputs: _containers.RepeatedCompositeFieldContainer[Input]
    model: str
    no_special_tokens: bool
    partial_results: bool
    def __init__(self, model: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[Input, _Mapping]]] = ..., no_special_tokens: bool = ..., partial_results: bool = ...) -> None: ...

class TokenizeResponse(_message.Message):
    __slots__ = ["results"]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[TokenizedInput]
    def __init__(self, results: _Optional[_Iterable[_Union[TokenizedInput, _Mapping]]] = ...) -> None: ...

class TokenizedInput(_message.Message):
    __slots__ = ["error", "tokens"]
    class Token(_message.Message):
        __slots__ = ["end_byte", "id", "start_byte", "text", "type_id"]
        END_BYTE_FIELD_NUMBER: _ClassVar[int]
        ID_FIELD_NUMBER: _ClassVar[int]
        START_BYTE_FIELD_NUMBER: _ClassVar[int]
        TEXT_FIELD_NUMBER: _ClassVar[int]
        TYPE_ID_FIELD_NUMBER: _ClassVar[int]
        end_byte: int
        id: int
        start_byte: int
        text: str
        type_id: int
        def __init__(self, id: _Optional[int] = ..., text: _Optional[str] = ..., start_byte: _Optional[int] = ..., end_byte: _Optional[int] = ..., type_id: _Optional[int] = ...) -> None: ...
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    error: Error
    tokens: _containers.RepeatedCompositeFieldContainer[TokenizedInput.Token]
    def __init__(self, tokens: _Optional[_Iterable[_Union[TokenizedInput.Token, _Mapping]]] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class Truncation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Pooling(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
