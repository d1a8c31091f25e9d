#include "kernels/text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/reference/internal.h"

namespace lion::reference {
namespace {

void PredictRow(const std::vector<float>& logits, const PredictTokensArgs& args, int64_t row) {
  int32_t* ids = args.ids + row * args.count;
  float *values = args.logits + row * args.count, *probabilities = args.probabilities + row * args.count;
  double sum = 0;
  const double peak = *std::max_element(logits.begin(), logits.end());
  for (float logit : logits) sum += std::exp(logit - peak);
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  if (std::isfinite(sum)) {
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  }
  for (int64_t i = 0; i < args.count; ++i) {
    ids[i] = order[i];
    values[i] = std::isfinite(sum) ? logits[order[i]] : std::numeric_limits<float>::quiet_NaN();
    probabilities[i] = static_cast<float>(std::exp(values[i] - peak) / sum);
  }
}

}  // namespace

absl::Status EmbedTokens(KernelContext&, const EmbedTokensArgs& args) {
  for (size_t s = 0; s < args.sequences.size(); ++s) {
    const TokenSequence& sequence = args.sequences[s];
    for (int64_t i = 0; i < args.offsets[s + 1] - args.offsets[s]; ++i) {
      const int64_t type = sequence.type_ids == nullptr ? 0 : sequence.type_ids[i];
      std::vector<double> row(args.width);
      for (int64_t n = 0; n < args.width; ++n) {
        row[n] = static_cast<double>(args.words[sequence.ids[i] * args.width + n]) + args.types[type * args.width + n];
        if (args.positions != nullptr) row[n] += args.positions[i * args.width + n];
      }
      NormRow(row, args.norm);
      float* x = args.x + (args.offsets[s] + i) * args.width;
      for (int64_t n = 0; n < args.width; ++n) x[n] = static_cast<float>(row[n]);
    }
  }
  return absl::OkStatus();
}

absl::Status PredictTokens(KernelContext&, const PredictTokensArgs& args) {
  const int64_t width = args.decoder.front()->inputs();
  for (int64_t r = 0; r < args.rows; ++r) {
    const std::vector<double> row(args.x + r * width, args.x + (r + 1) * width);
    std::vector<float> logits;
    for (const auto& part : args.decoder) {
      const std::vector<double> scores = Product(row, static_cast<const ReferenceLinear&>(*part));
      logits.insert(logits.end(), scores.begin(), scores.end());
    }
    PredictRow(logits, args, r);
  }
  return absl::OkStatus();
}

}  // namespace lion::reference
