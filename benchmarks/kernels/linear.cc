// The linear layers of an encoder block, with what is fused to them, and the layer norm.
#include "kernels/linear.h"

#include <algorithm>
#include <cmath>

#include "benchmarks/kernels/measure.h"
#include "benchmarks/kernels/sizes.h"

namespace lion {
namespace {

struct Layer {
  Layer(int64_t in, int64_t out)
      : weight(Normal(in * out, 1 / std::sqrt(static_cast<float>(in)))),
        bias(Normal(out, 1)),
        inputs(in),
        outputs(out) {}
  std::unique_ptr<PackedLinear> Pack(const Operations& kernels, DataType type, int64_t tail = 0) const {
    return kernels.pack_linear({weight.data(), bias.data(), inputs, outputs, type, tail}).value();
  }
  double flops(int64_t rows) const { return 2.0 * static_cast<double>(rows * inputs * outputs); }
  std::vector<float> weight, bias;
  int64_t inputs, outputs;
};

struct Norm {
  explicit Norm(int64_t width) : gamma(Normal(width, 0.5f, 1)), beta(Normal(width, 1)) {}
  NormParameters parameters() const { return {gamma.data(), beta.data(), 1e-6f}; }
  std::vector<float> gamma, beta;
};

// What of y = activation(norm(x) W^T + b) + residual there is.
struct LinearShape {
  int64_t inputs = 0, outputs = 0, rows = 0, tail = 0;
  bool norm = false, gelu = false, residual = false;
  DataType type = DataType::kFloat32;
};

struct LinearOperands {
  explicit LinearOperands(const LinearShape& shape)
      : s(shape),
        layer(shape.inputs, shape.outputs),
        norm(shape.inputs),
        input(shape.norm ? DataType::kFloat32 : shape.type, Normal(shape.rows * shape.inputs, 1)),
        residual(DataType::kFloat32, Normal(shape.residual ? shape.rows * shape.outputs : 0, 1)),
        output(output_type(), shape.rows * body()),
        tail(DataType::kFloat32, shape.rows * shape.tail) {}

  int64_t body() const { return s.outputs - s.tail; }
  DataType output_type() const { return s.residual ? DataType::kFloat32 : s.type; }
  LinearArgs Args(const PackedLinear& packed) const {
    return {.input = input.data(),
            .input_type = s.norm ? DataType::kFloat32 : s.type,
            .rows = s.rows,
            .pre_norm = s.norm ? norm.parameters() : NormParameters(),
            .linear = &packed,
            .activation = s.gelu ? Activation::kGeluErf : Activation::kNone,
            .residual = s.residual ? residual.floats() : nullptr,
            .post_norm = {},
            .output = output.data(),
            .output_type = output_type(),
            .tail = tail.floats(),
            .tail_columns = s.tail};
  }

  // Some rows of the same input through the reference: a row does not depend on the others.
  std::string Mistake(Bench& bench) const {
    const std::vector<int64_t> rows = SomeRows(s.rows);
    const auto packed = layer.Pack(ReferenceOperations(), s.type, s.tail);
    const Array in(s.norm ? DataType::kFloat32 : s.type, input.Rows(rows, s.inputs));
    const Array add(DataType::kFloat32, s.residual ? residual.Rows(rows, s.outputs) : std::vector<float>());
    const Array out(output_type(), static_cast<int64_t>(rows.size()) * body());
    const Array out_tail(DataType::kFloat32, static_cast<int64_t>(rows.size()) * s.tail);
    LinearArgs args = Args(*packed);
    args.input = in.data();
    args.rows = static_cast<int64_t>(rows.size());
    if (s.residual) args.residual = add.floats();
    args.output = out.data();
    args.tail = out_tail.floats();
    if (const auto status = ReferenceOperations().linear(*bench.reference_context, args); !status.ok()) {
      return status.ToString();
    }
    if (std::string mistake = Compare(s.type, output.Rows(rows, body()), out.values()); !mistake.empty())
      return mistake;
    return s.tail == 0 ? "" : Compare(s.type, tail.Rows(rows, s.tail), out_tail.values());
  }

  LinearShape s;
  Layer layer;
  Norm norm;
  Array input, residual, output, tail;
};

KernelCase MakeLinear(Bench& bench, const LinearShape& shape) {
  const auto operands = std::make_shared<LinearOperands>(shape);
  const std::shared_ptr<PackedLinear> packed = operands->layer.Pack(*bench.cpu, shape.type, shape.tail);
  return {.product = shape.type,
          .tokens = static_cast<double>(shape.rows),
          .flops = operands->layer.flops(shape.rows),
          .prepare = {},
          .run = [&bench, operands, packed] { return bench.cpu->linear(*bench.context, operands->Args(*packed)); },
          .mistake = [&bench, operands] { return operands->Mistake(bench); }};
}

KernelCase MakeMlp(Bench& bench, int64_t width, int64_t rows, DataType type) {
  struct Operands {
    Layer fc1, fc2;
    Norm norm;
    std::vector<float> input;
    Array x;
    std::unique_ptr<PackedLinear> packed1, packed2;
  };
  const auto o = std::make_shared<Operands>(Operands{Layer(width, 4 * width), Layer(4 * width, width), Norm(width),
                                                     Normal(rows * width, 1), Array(DataType::kFloat32, rows * width),
                                                     nullptr, nullptr});
  o->packed1 = o->fc1.Pack(*bench.cpu, type);
  o->packed2 = o->fc2.Pack(*bench.cpu, type);
  const auto args = [o](float* x, int64_t count, const PackedLinear& fc1, const PackedLinear& fc2) {
    return MlpArgs{.x = x, .rows = count, .pre_norm = o->norm.parameters(), .fc1 = &fc1, .fc2 = &fc2, .post_norm = {}};
  };
  return {.product = type,
          .tokens = static_cast<double>(rows),
          .flops = o->fc1.flops(rows) + o->fc2.flops(rows),
          .prepare = [o] { o->x.Set(o->input); },  // the layer works in place
          .run = [&bench, o, args,
                  rows] { return bench.cpu->mlp(*bench.context, args(o->x.floats(), rows, *o->packed1, *o->packed2)); },
          .mistake = [&bench, o, args, rows, width, type]() -> std::string {
            const std::vector<int64_t> some = SomeRows(rows);
            const Array x(DataType::kFloat32, Array(DataType::kFloat32, o->input).Rows(some, width));
            const auto fc1 = o->fc1.Pack(ReferenceOperations(), type), fc2 = o->fc2.Pack(ReferenceOperations(), type);
            const auto status = ReferenceOperations().mlp(
                *bench.reference_context, args(x.floats(), static_cast<int64_t>(some.size()), *fc1, *fc2));
            return status.ok() ? Compare(type, o->x.Rows(some, width), x.values()) : status.ToString();
          }};
}

KernelCase MakeLayerNorm(Bench& bench, int64_t width, int64_t rows) {
  struct Operands {
    Norm norm;
    Array input, output;
  };
  const auto o = std::make_shared<Operands>(Operands{Norm(width), Array(DataType::kFloat32, Normal(rows * width, 1)),
                                                     Array(DataType::kFloat32, rows * width)});
  const auto args = [o, width](const Array& input, int64_t count, const Array& output) {
    return LayerNormArgs{.input = input.floats(),
                         .rows = count,
                         .columns = width,
                         .norm = o->norm.parameters(),
                         .output = output.floats()};
  };
  return {
      .tokens = static_cast<double>(rows),
      .bytes = 8.0 * static_cast<double>(rows * width),
      .prepare = {},
      .run = [&bench, o, args, rows] { return bench.cpu->layer_norm(*bench.context, args(o->input, rows, o->output)); },
      .mistake = [&bench, o, args, rows, width]() -> std::string {
        const std::vector<int64_t> some = SomeRows(rows);
        const auto count = static_cast<int64_t>(some.size());
        const Array in(DataType::kFloat32, o->input.Rows(some, width)), out(DataType::kFloat32, count * width);
        const auto status = ReferenceOperations().layer_norm(*bench.reference_context, args(in, count, out));
        return status.ok() ? Compare(DataType::kFloat32, o->output.Rows(some, width), out.values()) : status.ToString();
      }};
}

}  // namespace

void RegisterLinear(Bench& bench) {
  for (const ModelSize& size : kModelSizes) {
    const int64_t width = size.width, heads = size.heads;
    for (const int64_t rows : {kOneImage, kEightImages}) {
      const auto name = [&](const char* kind, DataType type) {
        return std::string(kind) + "/" + size.name + "/" + std::to_string(rows) + "/" + bench.Suffix(type);
      };
      for (const DataType type : bench.types()) {
        const std::pair<const char*, LinearShape> layers[] = {
            // As in LION-S: norm before, gate logits behind.
            {"linear/qkv",
             {.inputs = width, .outputs = 3 * width + heads, .rows = rows, .tail = heads, .norm = true, .type = type}},
            {"linear/proj", {.inputs = width, .outputs = width, .rows = rows, .residual = true, .type = type}},
            // The pair of them shows what GELU costs.
            {"linear/fc1", {.inputs = width, .outputs = 4 * width, .rows = rows, .type = type}},
            {"linear/fc1_gelu", {.inputs = width, .outputs = 4 * width, .rows = rows, .gelu = true, .type = type}}};
        for (const auto& [kind, shape] : layers) {
          Register(bench, name(kind, type), [shape = shape](Bench& b) { return MakeLinear(b, shape); });
        }
        Register(bench, name("mlp", type), [=](Bench& b) { return MakeMlp(b, width, rows, type); });
      }
      Register(bench, name("layer_norm", DataType::kFloat32), [=](Bench& b) { return MakeLayerNorm(b, width, rows); });
    }
  }
}

}  // namespace lion
