"""What is measured: cases (a model and a batch of images), and who runs each."""

import dataclasses

PATCH = 16


@dataclasses.dataclass(frozen=True)
class Peer:
    framework: str  # lion, PyTorch, PyTorch compiled, ONNX Runtime, OpenVINO
    form: str  # of the mixer: chunk, attention, recurrent; softmax: another model, of equal size
    type: str  # float32, bfloat16, int8

    @property
    def name(self):
        return f"{self.framework} / {self.form} / {self.type}"


@dataclasses.dataclass(frozen=True)
class Case:
    size: str
    variant: str
    order: str
    side: int  # pixels
    batch: int
    peers: tuple

    @property
    def model(self):
        return f"{self.size}-{self.variant}-{self.order}"

    @property
    def tokens(self):
        return self.batch * self.tokens_per_image

    @property
    def tokens_per_image(self):
        return (self.side // PATCH)**2 + 1

    @property
    def name(self):
        return f"{self.model} / {self.side} / {self.batch}"


def peers(framework, form, *types):
    return [Peer(framework, form, type) for type in types]


BOTH = ("float32", "bfloat16")
LION = peers("lion", "chunk", *BOTH)
TORCH_CHUNK = peers("PyTorch", "chunk", *BOTH)
CHUNK = [*LION, *TORCH_CHUNK, *peers("ONNX Runtime", "chunk", "float32"), *peers("OpenVINO", "chunk", *BOTH)]
ATTENTION = [*peers("PyTorch", "attention", *BOTH), *peers("ONNX Runtime", "attention", "float32"),
             *peers("OpenVINO", "attention", *BOTH)]
SOFTMAX = [*peers("lion", "softmax", *BOTH), *peers("PyTorch", "softmax", *BOTH),
           *peers("ONNX Runtime", "softmax", "float32"), *peers("OpenVINO", "softmax", *BOTH)]
RECURRENT = peers("PyTorch", "recurrent", "float32")
INT8 = peers("ONNX Runtime", "chunk", "int8")
COMPILED = [*peers("PyTorch compiled", "chunk", *BOTH), *peers("PyTorch compiled", "attention", "float32")]


def case(model, side, batch, *groups):
    return Case(*model.split("-"), side, batch, tuple(peer for group in groups for peer in group))


# The most telling first: if the time is up before the end, it is the rest that is left out.
FULL = [
    case("tiny-s-normal", 224, 1, CHUNK, INT8, ATTENTION, SOFTMAX, RECURRENT),
    case("tiny-s-normal", 512, 1, CHUNK, ATTENTION, SOFTMAX, COMPILED),
    case("tiny-s-normal", 1024, 1, CHUNK, ATTENTION, SOFTMAX, RECURRENT),
    case("tiny-s-normal", 2496, 1, CHUNK, SOFTMAX, ATTENTION),
    case("tiny-s-normal", 224, 8, CHUNK, ATTENTION, SOFTMAX),
    case("base-s-normal", 224, 1, CHUNK, ATTENTION, SOFTMAX),
    case("base-s-normal", 1024, 1, CHUNK, SOFTMAX),
    case("tiny-s-normal", 4096, 1, LION, TORCH_CHUNK),
    case("tiny-lit-normal", 224, 1, CHUNK),
    case("tiny-lit-normal", 1024, 1, CHUNK),
    case("tiny-d-normal", 224, 1, CHUNK),
    case("tiny-d-normal", 1024, 1, CHUNK),
    case("tiny-s-s", 224, 1, CHUNK),
    case("tiny-s-s", 1024, 1, CHUNK),
    case("base-s-normal", 512, 1, CHUNK, SOFTMAX),
    case("base-s-normal", 224, 8, CHUNK, SOFTMAX),
    case("base-lit-normal", 224, 1, LION, TORCH_CHUNK),
    case("base-d-normal", 224, 1, LION, TORCH_CHUNK),
    case("tiny-d-s", 224, 1, LION, TORCH_CHUNK),
    case("base-s-s", 224, 1, LION, TORCH_CHUNK),
    case("base-d-s", 224, 1, LION, TORCH_CHUNK),
]
QUICK = [
    case("tiny-s-normal", 224, 1, CHUNK, ATTENTION, SOFTMAX),
    case("tiny-s-normal", 512, 1, CHUNK, ATTENTION, SOFTMAX),
    case("tiny-lit-normal", 224, 1, LION, TORCH_CHUNK),
    case("tiny-d-normal", 224, 1, LION, TORCH_CHUNK),
    case("tiny-s-s", 224, 1, LION, TORCH_CHUNK),
    case("tiny-s-normal", 1024, 1, CHUNK),
]

# Relative L2 error of the embeddings: docs/mathematics.md, section 6. int8 is asked for no less than bfloat16.
LARGEST_ERROR = {"float32": 2e-5, "bfloat16": 2e-2, "int8": 2e-2}
