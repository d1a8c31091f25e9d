#include "kernels/text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/status/status.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/entries.h"
#include "kernels/cpu/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/text.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/row_tiles-inl.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lion::cpu::HWY_NAMESPACE {
namespace {

void EmbedToken(const EmbedTokensArgs& args, const TokenSequence& sequence, int64_t place, float* x) {
  const int64_t width = args.width;
  const float* word = args.words + sequence.ids[place] * width;
  const float* type = args.types + (sequence.type_ids == nullptr ? 0 : sequence.type_ids[place]) * width;
  const float* position = args.positions == nullptr ? nullptr : args.positions + place * width;
  ForEach(width, [&](auto d, int64_t n) HWY_ATTR {
    auto sum = hn::Add(hn::LoadU(d, word + n), hn::LoadU(d, type + n));
    if (position != nullptr) sum = hn::Add(sum, hn::LoadU(d, position + n));
    hn::StoreU(sum, d, x + n);
  });
  NormRow(x, width, args.norm, x);
}

absl::Status EmbedTokens(KernelContext& context, const EmbedTokensArgs& args) {
  return ForEachRowTile(Cpu(context), args.offsets.back(), kRowStep, [&](int64_t first, int64_t rows, int) {
    size_t s = std::upper_bound(args.offsets.begin(), args.offsets.end(), first) - args.offsets.begin() - 1;
    for (int64_t row = first; row < first + rows; ++row) {
      if (row == args.offsets[s + 1]) ++s;
      EmbedToken(args, args.sequences[s], row - args.offsets[s], args.x + row * args.width);
    }
    return absl::OkStatus();
  });
}

// logits[r, column..] of one part of the decoder for the rows of a tile.
template <typename T>
absl::Status DecodePart(CpuContext& context, int thread, const Matmul& part, const float* x, int64_t rows,
                        int64_t column, int64_t vocabulary, float* logits) {
  TileScratch<T> tile(context, thread, part);
  ConvertRow(x, rows * part.inputs(), tile.input);
  if (absl::Status status = tile.Run(part, rows); !status.ok()) return status;
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(tile.output + r * part.outputs(), part.outputs(), logits + r * vocabulary + column);
  }
  return absl::OkStatus();
}

// The highest of n values; NaNs may be passed over.
float Highest(const float* values, int64_t n) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto highest = hn::Set(d, -HUGE_VALF);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) highest = hn::Max(highest, hn::LoadU(d, values + i));
  float result = hn::GetLane(hn::MaxOfLanes(d, highest));
  for (; i < n; ++i) result = std::max(result, values[i]);
  return result;
}

// order: [vocabulary], to work in.
void PredictRow(const float* logits, int64_t vocabulary, int32_t* order, const PredictTokensArgs& args, int64_t row) {
  int32_t* ids = args.ids + row * args.count;
  float *values = args.logits + row * args.count, *probabilities = args.probabilities + row * args.count;
  const float peak = Highest(logits, vocabulary);
  const float sum = SumOver(vocabulary, [&](auto d, int64_t n) HWY_ATTR {
    return ExpKeepingNaN(d, hn::Sub(hn::LoadU(d, logits + n), hn::Set(d, peak)));
  });
  std::iota(order, order + vocabulary, 0);
  if (!std::isfinite(sum)) {
    // NaN has no place in an order.
    std::copy_n(order, args.count, ids);
    std::fill_n(values, args.count, std::numeric_limits<float>::quiet_NaN());
    std::fill_n(probabilities, args.count, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  std::partial_sort(order, order + args.count, order + vocabulary,
                    [logits](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  for (int64_t i = 0; i < args.count; ++i) {
    ids[i] = order[i];
    values[i] = logits[order[i]];
    probabilities[i] = std::exp(values[i] - peak) / sum;
  }
}

template <typename T>
absl::Status PredictTokensOf(CpuContext& context, const PredictTokensArgs& args) {
  const int64_t parts = static_cast<int64_t>(args.decoder.size()), width = args.decoder.front()->inputs();
  ScratchPlan plan;
  plan.Add<int64_t>(parts + 1);
  int64_t vocabulary = 0;
  for (const auto& part : args.decoder) vocabulary += part->outputs();
  plan.Add<float>(kRowTile * vocabulary);
  plan.Use(context.ReserveShared(plan.bytes()));
  int64_t* const columns = plan.Take<int64_t>(parts + 1);
  float* const logits = plan.Take<float>(kRowTile * vocabulary);
  columns[0] = 0;
  for (int64_t p = 0; p < parts; ++p) columns[p + 1] = columns[p] + args.decoder[p]->outputs();
  for (int64_t first = 0; first < args.rows; first += kRowTile) {
    const int64_t rows = std::min(kRowTile, args.rows - first);
    absl::Status status = ForEachTask(context, parts, [&](int64_t p, int thread) {
      return DecodePart<T>(context, thread, static_cast<const Matmul&>(*args.decoder[p]), args.x + first * width, rows,
                           columns[p], vocabulary, logits);
    });
    if (!status.ok()) return status;
    context.pool().ParallelFor(rows, [&](int64_t r, int thread) {
      std::byte* order = context.Reserve(thread, vocabulary * static_cast<int64_t>(sizeof(int32_t)));
      PredictRow(logits + r * vocabulary, vocabulary, reinterpret_cast<int32_t*>(order), args, first + r);
    });
  }
  return absl::OkStatus();
}

absl::Status PredictTokens(KernelContext& context, const PredictTokensArgs& args) {
  return static_cast<const Matmul&>(*args.decoder.front()).compute_type() == DataType::kFloat32
             ? PredictTokensOf<float>(Cpu(context), args)
             : PredictTokensOf<uint16_t>(Cpu(context), args);
}

EmbedTokensFn GetEmbedTokens() { return &EmbedTokens; }
PredictTokensFn GetPredictTokens() { return &PredictTokens; }

}  // namespace
}  // namespace lion::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lion::cpu::LION_CPU_EXPORTS {
HWY_EXPORT(GetEmbedTokens);
HWY_EXPORT(GetPredictTokens);
void ExportText(Operations& table) {
  table.embed_tokens = HWY_DYNAMIC_DISPATCH(GetEmbedTokens)();
  table.predict_tokens = HWY_DYNAMIC_DISPATCH(GetPredictTokens)();
}
}  // namespace lion::cpu::LION_CPU_EXPORTS
#endif
