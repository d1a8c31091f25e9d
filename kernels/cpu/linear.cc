#include "kernels/linear.h"

#include "absl/status/status.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/entries.h"
#include "kernels/cpu/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/row_tiles-inl.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lion::cpu::HWY_NAMESPACE {
namespace {

// The operand of rows [first, first + rows), of which there are Height(rows): where they lie, if they can stay, or the
// tile's.
template <typename T, typename In>
const T* LinearOperand(const LinearArgs& args, TileScratch<T>& tile, int64_t first, int64_t rows) {
  const int64_t inputs = args.linear->inputs();
  const In* in = static_cast<const In*>(args.input) + first * inputs;
  if constexpr (std::is_same_v<In, T>) {
    if (args.pre_norm.gamma == nullptr && rows == tile.Height(rows)) return in;
  }
  for (int64_t r = 0; r < rows; ++r) {
    if (args.pre_norm.gamma != nullptr) {
      NormRow(in + r * inputs, inputs, args.pre_norm, tile.input + r * inputs);
    } else {
      ConvertRow(in + r * inputs, inputs, tile.input + r * inputs);
    }
  }
  tile.PadInput(rows, inputs);
  return tile.input;
}

// Rows [first, first + rows) of the layer. T: compute type of the product; In, Out: of the arrays.
template <typename T, typename In, typename Out>
absl::Status LinearTile(const LinearArgs& args, const Matmul& matmul, TileScratch<T>& tile, int64_t first,
                        int64_t rows) {
  const int64_t body = matmul.body_outputs();
  const T* const operand = LinearOperand<T, In>(args, tile, first, rows);
  Out* const out = static_cast<Out*>(args.output) + first * body;
  if (matmul.tail() != nullptr) {
    const Matmul& tail = *matmul.tail();
    absl::Status status = tile.Store(tail, operand, rows, args.tail + first * tail.outputs());
    if (!status.ok()) return status;
  }
  const bool bare = args.activation == Activation::kNone && args.post_norm.gamma == nullptr;
  if constexpr (std::is_same_v<Out, float>) {
    if (args.residual == args.output && args.activation == Activation::kNone) {
      if (absl::Status status = tile.Add(matmul, operand, rows, out); !status.ok()) return status;
      if (args.post_norm.gamma == nullptr) return absl::OkStatus();
      for (int64_t r = 0; r < rows; ++r) NormRow(out + r * body, body, args.post_norm, out + r * body);
      return absl::OkStatus();
    }
  }
  if constexpr (std::is_same_v<Out, float> || std::is_same_v<Out, T>) {
    if (args.residual == nullptr && bare) return tile.Store(matmul, operand, rows, out);
  }
  if (absl::Status status = matmul.Run(Epilogue::kBias, tile.Height(rows), operand, tile.output, tile.scratch);
      !status.ok())
    return status;
  for (int64_t r = 0; r < rows; ++r) {
    float* y = tile.output + r * body;
    const float* residual = args.residual == nullptr ? nullptr : args.residual + (first + r) * body;
    ForEach(body, [&](auto d, int64_t n) HWY_ATTR {
      auto value = hn::LoadU(d, y + n);
      if (args.activation == Activation::kGeluErf) value = Gelu<Out>(d, value);
      if (residual != nullptr) value = hn::Add(value, hn::LoadU(d, residual + n));
      hn::StoreU(value, d, y + n);
    });
    if (args.post_norm.gamma != nullptr) NormRow(y, body, args.post_norm, y);
    ConvertRow(y, body, out + r * body);
  }
  return absl::OkStatus();
}

template <typename T, typename In, typename Out>
absl::Status LinearOf(CpuContext& context, const LinearArgs& args) {
  const Matmul& matmul = static_cast<const Matmul&>(*args.linear);
  return ForEachRowTile(context, args.rows, matmul.row_step(), [&](int64_t first, int64_t rows, int thread) {
    TileScratch<T> tile(context, thread, matmul);
    return LinearTile<T, In, Out>(args, matmul, tile, first, rows);
  });
}

template <typename T, typename In>
absl::Status LinearFrom(CpuContext& context, const LinearArgs& args) {
  return args.output_type == DataType::kFloat32 ? LinearOf<T, In, float>(context, args)
                                                : LinearOf<T, In, uint16_t>(context, args);
}

template <typename T>
absl::Status LinearIn(CpuContext& context, const LinearArgs& args) {
  return args.input_type == DataType::kFloat32 ? LinearFrom<T, float>(context, args)
                                               : LinearFrom<T, uint16_t>(context, args);
}

absl::Status Linear(KernelContext& context, const LinearArgs& args) {
  return static_cast<const Matmul&>(*args.linear).compute_type() == DataType::kFloat32
             ? LinearIn<float>(Cpu(context), args)
             : LinearIn<uint16_t>(Cpu(context), args);
}

template <typename T>
absl::Status MlpOf(CpuContext& context, const MlpArgs& args) {
  const Matmul &fc1 = static_cast<const Matmul&>(*args.fc1), &fc2 = static_cast<const Matmul&>(*args.fc2);
  const int64_t width = fc1.inputs(), hidden = fc1.outputs();
  const int64_t step = std::max(fc1.row_step(), fc2.row_step());
  return ForEachRowTile(context, args.rows, step, [&](int64_t first, int64_t rows, int thread) {
    TileScratch<T> tile(context, thread, fc1, &fc2);
    for (int64_t r = 0; r < rows; ++r) {
      const float* x = args.x + (first + r) * width;
      if (args.pre_norm.gamma != nullptr) {
        NormRow(x, width, args.pre_norm, tile.input + r * width);
      } else {
        ConvertRow(x, width, tile.input + r * width);
      }
    }
    if (absl::Status status = tile.Run(fc1, rows); !status.ok()) return status;
    for (int64_t r = 0; r < rows; ++r) {
      const float* y = tile.output + r * hidden;
      StoreRow(hidden, tile.input + r * hidden,
               [&](auto d, int64_t n) HWY_ATTR { return Gelu<T>(d, hn::LoadU(d, y + n)); });
    }
    tile.PadInput(rows, hidden);
    float* const x = args.x + first * width;
    if (absl::Status status = tile.Add(fc2, tile.input, rows, x); !status.ok()) return status;
    if (args.post_norm.gamma == nullptr) return absl::OkStatus();
    for (int64_t r = 0; r < rows; ++r) NormRow(x + r * width, width, args.post_norm, x + r * width);
    return absl::OkStatus();
  });
}

absl::Status Mlp(KernelContext& context, const MlpArgs& args) {
  return static_cast<const Matmul&>(*args.fc1).compute_type() == DataType::kFloat32
             ? MlpOf<float>(Cpu(context), args)
             : MlpOf<uint16_t>(Cpu(context), args);
}

absl::Status LayerNorm(KernelContext& context, const LayerNormArgs& args) {
  return ForEachRowTile(Cpu(context), args.rows, kRowStep, [&](int64_t first, int64_t rows, int) {
    for (int64_t r = first; r < first + rows; ++r) {
      NormRow(args.input + r * args.columns, args.columns, args.norm, args.output + r * args.columns);
    }
    return absl::OkStatus();
  });
}

LinearFn GetLinear() { return &Linear; }
MlpFn GetMlp() { return &Mlp; }
LayerNormFn GetLayerNorm() { return &LayerNorm; }

}  // namespace
}  // namespace lion::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lion::cpu::LION_CPU_EXPORTS {
HWY_EXPORT(GetLinear);
HWY_EXPORT(GetMlp);
HWY_EXPORT(GetLayerNorm);
void ExportLinear(Operations& table) {
  table.linear = HWY_DYNAMIC_DISPATCH(GetLinear)();
  table.mlp = HWY_DYNAMIC_DISPATCH(GetMlp)();
  table.layer_norm = HWY_DYNAMIC_DISPATCH(GetLayerNorm)();
}
}  // namespace lion::cpu::LION_CPU_EXPORTS
#endif
