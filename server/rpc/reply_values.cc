#include "server/rpc/reply_values.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace lion {
namespace {

// Divides by the L2 norm. The sum is float64, so that no finite float32 vector overflows it.
void Normalize(std::span<float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  if (sum == 0) return;
  const double scale = 1 / std::sqrt(sum);
  for (float& value : values) value = static_cast<float>(value * scale);
}

}  // namespace

int64_t FinishEmbedding(const ModelConfig& config, int64_t dimensions, std::optional<bool> normalize,
                        std::vector<float>* embedding) {
  const auto width = static_cast<size_t>(config.width);
  const size_t kept = dimensions == 0 ? width : static_cast<size_t>(dimensions);
  const size_t rows = embedding->size() / width;
  // The kept columns of each row move to the front; source and target may overlap, the target is never behind.
  for (size_t row = 0; kept < width && row < rows; ++row) {
    std::copy_n(embedding->begin() + static_cast<int64_t>(row * width), kept,
                embedding->begin() + static_cast<int64_t>(row * kept));
  }
  embedding->resize(rows * kept);
  if (normalize.value_or(config.normalize)) {
    for (size_t row = 0; row < rows; ++row) Normalize(std::span(*embedding).subspan(row * kept, kept));
  }
  return static_cast<int64_t>(kept);
}

void Softmax(std::span<float> logits) {
  const float highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float& value : logits) {
    value = std::exp(value - highest);
    sum += value;
  }
  for (float& value : logits) value = static_cast<float>(value / sum);
}

std::vector<uint32_t> HighestClasses(std::span<const float> logits, uint32_t count) {
  std::vector<uint32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const size_t shown = count == 0 ? order.size() : std::min<size_t>(count, order.size());
  // By the logits, in which classes still differ whose probabilities have both become 0.
  std::partial_sort(
      order.begin(), order.begin() + static_cast<int64_t>(shown), order.end(),
      [&logits](uint32_t a, uint32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  order.resize(shown);
  return order;
}

std::string LabelOf(const ModelConfig& config, uint32_t index) {
  return index < config.labels.size() ? config.labels[index] : absl::StrCat(index);
}

}  // namespace lion
