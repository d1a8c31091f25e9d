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

// Rows [first, first + rows) of the layer. T: compute type of the product; In, Out: of the arrays.
template <typename T, typename In, typename Out>
absl::Status LinearTile(const LinearArgs& args, const Matmul& matmul, TileScratch<T>& tile, int64_t first,
                        int64_t rows) {
  const int64_t inputs = matmul.inputs(), outputs = matmul.outputs(), body = outputs - args.tail_columns;
  const In* in = static_cast<const In*>(args.input) + first * inputs;
  for (int64_t r = 0; r < rows; ++r) {
    if constexpr (std::is_same_v<In, float>) {
      if (args.pre_norm.gamma != nullptr) {
        NormRow(in + r * inputs, inputs, args.pre_norm, tile.input + r * inputs);
        continue;
      }
    }
    ConvertRow(in + r * inputs, inputs, tile.input + r * inputs);
  }
  if (absl::Status status = tile.Run(matmul, rows); !status.ok()) return status;
  const float* bias = matmul.bias();
  for (int64_t r = 0; r < rows; ++r) {
    float* y = tile.output + r * outputs;
    const float* residual = args.residual == nullptr ? nullptr : args.residual + (first + r) * outputs;
    ForEach(outputs, [&](auto d, int64_t n) HWY_ATTR {
      auto value = hn::Add(hn::LoadU(d, y + n), hn::LoadU(d, bias + n));
      if (args.activation == Activation::kGeluErf) value = Gelu(d, value);
      if (residual != nullptr) value = hn::Add(value, hn::LoadU(d, residual + n));
      hn::StoreU(value, d, y + n);
    });
    if (args.post_norm.gamma != nullptr) NormRow(y, outputs, args.post_norm, y);
    ConvertRow(y, body, static_cast<Out*>(args.output) + (first + r) * body);
    if (args.tail_columns > 0) ConvertRow(y + body, args.tail_columns, args.tail + (first + r) * args.tail_columns);
  }
  return absl::OkStatus();
}

template <typename T, typename In, typename Out>
absl::Status LinearOf(CpuContext& context, const LinearArgs& args) {
  const Matmul& matmul = static_cast<const Matmul&>(*args.linear);
  return ForEachRowTile(context, args.rows, [&](int64_t first, int64_t rows, int thread) {
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
  return ForEachRowTile(context, args.rows, [&](int64_t first, int64_t rows, int thread) {
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
    const float* bias = fc1.bias();
    for (int64_t r = 0; r < rows; ++r) {
      const float* y = tile.output + r * hidden;
      ForEach(hidden, [&](auto d, int64_t n) HWY_ATTR {
        StoreF32(d, Gelu(d, hn::Add(hn::LoadU(d, y + n), hn::LoadU(d, bias + n))), tile.input + r * hidden + n);
      });
    }
    if (absl::Status status = tile.Run(fc2, rows); !status.ok()) return status;
    bias = fc2.bias();
    for (int64_t r = 0; r < rows; ++r) {
      float* x = args.x + (first + r) * width;
      const float* y = tile.output + r * width;
      ForEach(width, [&](auto d, int64_t n) HWY_ATTR {
        const auto value = hn::Add(hn::LoadU(d, y + n), hn::LoadU(d, bias + n));
        hn::StoreU(hn::Add(hn::LoadU(d, x + n), value), d, x + n);
      });
      if (args.post_norm.gamma != nullptr) NormRow(x, width, args.post_norm, x);
    }
    return absl::OkStatus();
  });
}

absl::Status Mlp(KernelContext& context, const MlpArgs& args) {
  return static_cast<const Matmul&>(*args.fc1).compute_type() == DataType::kFloat32
             ? MlpOf<float>(Cpu(context), args)
             : MlpOf<uint16_t>(Cpu(context), args);
}

absl::Status LayerNorm(KernelContext& context, const LayerNormArgs& args) {
  return ForEachRowTile(Cpu(context), args.rows, [&](int64_t first, int64_t rows, int) {
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
