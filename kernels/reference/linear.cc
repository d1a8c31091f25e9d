#include "kernels/linear.h"

#include <cmath>

#include "kernels/reference/internal.h"

namespace lion::reference {

ReferenceLinear::ReferenceLinear(const LinearPack& pack)
    : PackedLinear(pack.inputs, pack.outputs, (pack.inputs + 1) * pack.outputs * 4),
      weight(pack.weight, pack.weight + pack.inputs * pack.outputs),
      bias(pack.outputs, 0.0f),
      compute_type(pack.compute_type) {
  if (pack.bias != nullptr) bias.assign(pack.bias, pack.bias + pack.outputs);
  if (compute_type == DataType::kBFloat16) {
    for (float& value : weight) value = FromBFloat16(ToBFloat16(value));
  }
}

void NormRow(std::span<double> row, const NormParameters& norm) {
  if (norm.gamma == nullptr) return;
  double mean = 0;
  for (double value : row) mean += value;
  mean /= static_cast<double>(row.size());
  double variance = 0;
  for (double value : row) variance += (value - mean) * (value - mean);
  variance /= static_cast<double>(row.size());
  const double scale = 1 / std::sqrt(variance + norm.epsilon);
  for (size_t i = 0; i < row.size(); ++i) row[i] = (row[i] - mean) * scale * norm.gamma[i] + norm.beta[i];
}

std::vector<double> Product(std::span<const double> row, const ReferenceLinear& linear) {
  std::vector<double> input(row.begin(), row.end());
  if (linear.compute_type == DataType::kBFloat16) {
    for (double& value : input) value = FromBFloat16(ToBFloat16(static_cast<float>(value)));
  }
  std::vector<double> output(linear.bias.begin(), linear.bias.end());
  for (int64_t n = 0; n < linear.outputs(); ++n) {
    const float* weight = linear.weight.data() + n * linear.inputs();
    double sum = 0;
    for (int64_t k = 0; k < linear.inputs(); ++k) sum += input[k] * weight[k];
    output[n] += sum;
  }
  return output;
}

namespace {

void Gelu(std::span<double> row) {
  for (double& value : row) value *= 0.5 * (1 + std::erf(value * std::sqrt(0.5)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackedLinear>> PackLinear(const LinearPack& pack) {
  return std::make_unique<ReferenceLinear>(pack);
}

absl::Status Linear(KernelContext&, const LinearArgs& args) {
  const auto& linear = static_cast<const ReferenceLinear&>(*args.linear);
  const int64_t inputs = linear.inputs(), outputs = linear.outputs(), body = outputs - args.tail_columns;
  std::vector<double> row(inputs);
  for (int64_t r = 0; r < args.rows; ++r) {
    for (int64_t k = 0; k < inputs; ++k) row[k] = Load(args.input, args.input_type, r * inputs + k);
    NormRow(row, args.pre_norm);
    std::vector<double> output = Product(row, linear);
    if (args.activation == Activation::kGeluErf) Gelu(output);
    if (args.residual != nullptr) {
      for (int64_t n = 0; n < outputs; ++n) output[n] += args.residual[r * outputs + n];
    }
    NormRow(output, args.post_norm);
    for (int64_t n = 0; n < body; ++n) Store(args.output, args.output_type, r * body + n, output[n]);
    for (int64_t n = body; n < outputs; ++n) {
      args.tail[r * args.tail_columns + n - body] = static_cast<float>(output[n]);
    }
  }
  return absl::OkStatus();
}

absl::Status Mlp(KernelContext&, const MlpArgs& args) {
  const auto& fc1 = static_cast<const ReferenceLinear&>(*args.fc1);
  const auto& fc2 = static_cast<const ReferenceLinear&>(*args.fc2);
  const int64_t width = fc1.inputs();
  for (int64_t r = 0; r < args.rows; ++r) {
    float* x = args.x + r * width;
    std::vector<double> row(x, x + width);
    NormRow(row, args.pre_norm);
    std::vector<double> hidden = Product(row, fc1);
    Gelu(hidden);
    std::vector<double> output = Product(hidden, fc2);
    for (int64_t n = 0; n < width; ++n) output[n] += x[n];
    NormRow(output, args.post_norm);
    for (int64_t n = 0; n < width; ++n) x[n] = static_cast<float>(output[n]);
  }
  return absl::OkStatus();
}

absl::Status LayerNorm(KernelContext&, const LayerNormArgs& args) {
  for (int64_t r = 0; r < args.rows; ++r) {
    std::vector<double> row(args.input + r * args.columns, args.input + (r + 1) * args.columns);
    NormRow(row, args.norm);
    for (int64_t n = 0; n < args.columns; ++n) args.output[r * args.columns + n] = static_cast<float>(row[n]);
  }
  return absl::OkStatus();
}

}  // namespace lion::reference
