#include "kernels/mixer.h"

#include <algorithm>
#include <type_traits>

#include "absl/status/status.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/entries.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mixer.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/mixer_attention-inl.h"
#include "kernels/cpu/mixer_chunk-inl.h"
#include "kernels/cpu/mixer_recurrent-inl.h"
#include "kernels/cpu/mixer_scan-inl.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lion::cpu::HWY_NAMESPACE {
namespace {

template <typename T, class Emit>
void Scan(MixerForm form, const HeadView<T>& head, int64_t width, ScanScratch& scratch, const Emit& emit) {
  if (form == MixerForm::kRecurrent) {
    ScanRecurrent(head, width, scratch, emit);
  } else {
    ScanAttention(head, width, scratch, emit);
  }
}

// One sequence and head at a time, whose tokens are scanned one after another.
template <typename T>
absl::Status ScanMixer(CpuContext& context, const MixerArgs& args) {
  const int64_t sequences = static_cast<int64_t>(args.offsets.size()) - 1;
  context.pool().ParallelFor(sequences * args.heads, [&](int64_t task, int thread) {
    const size_t sequence = static_cast<size_t>(task / args.heads);
    const int64_t head_index = task % args.heads, width = args.head_width, padded = Padded(width);
    const HeadView<T> head(args, sequence, head_index, args.orders[0]);
    ScanScratch scratch(context.Reserve(thread, ScanScratch::Bytes(head.length(), width)), head.length(), width);
    if (args.order_count == 1) {
      Scan(args.form, head, width, scratch,
           [&](int64_t place, const float* y, float c) HWY_ATTR { StoreOutput(args, y, c, head.Output(place)); });
      return;
    }
    Scan(args.form, head, width, scratch, [&](int64_t place, const float* y, float c) HWY_ATTR {
      const int64_t token = head.Place(place);
      std::copy_n(y, padded, scratch.all_y + token * padded);
      scratch.all_c[token] = c;
    });
    const HeadView<T> second(args, sequence, head_index, args.orders[1]);
    Scan(args.form, second, width, scratch, [&](int64_t place, const float* y, float c) HWY_ATTR {
      const int64_t token = second.Place(place);
      float* sum = scratch.all_y + token * padded;
      ForEach(padded, [&](auto d, int64_t i)
                          HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(d, sum + i), hn::LoadU(d, y + i)), d, sum + i); });
      StoreOutput(args, sum, scratch.all_c[token] + c, second.Output(place));
    });
  });
  return absl::OkStatus();
}

template <typename T>
absl::Status ChunkMixerOf(CpuContext& context, MixerArgs args) {
  const bool decays =
      args.orders[0].log_decay != nullptr || (args.order_count == 2 && args.orders[1].log_decay != nullptr);
  if (!decays) {
    // Every order gives the same then.
    args.order_count = 1;
    args.orders[0].permutation = nullptr;
  }
  const int64_t width = PaddedOperand(args.head_width);
  if constexpr (std::is_same_v<T, uint16_t>) {
    absl::StatusOr<const MixerProducts*> products = context.Products(DataType::kBFloat16, width, decays);
    if (products.ok()) return ChunkMixer<T, uint16_t>(context, args, **products).Run();
    if (!absl::IsUnimplemented(products.status())) return products.status();
  }
  absl::StatusOr<const MixerProducts*> products = context.Products(DataType::kFloat32, width, decays);
  if (!products.ok()) return products.status();
  return ChunkMixer<T, float>(context, args, **products).Run();
}

template <typename T>
absl::Status MixerOf(CpuContext& context, const MixerArgs& args) {
  const bool scan = args.form == MixerForm::kRecurrent || args.form == MixerForm::kAttention;
  return scan ? ScanMixer<T>(context, args) : ChunkMixerOf<T>(context, args);
}

absl::Status Mixer(KernelContext& context, const MixerArgs& args) {
  return args.type == DataType::kFloat32 ? MixerOf<float>(Cpu(context), args) : MixerOf<uint16_t>(Cpu(context), args);
}

absl::Status SoftmaxAttention(KernelContext& context, const SoftmaxAttentionArgs& args) {
  return args.type == DataType::kFloat32 ? SoftmaxAttentionOf<float>(Cpu(context), args)
                                         : SoftmaxAttentionOf<uint16_t>(Cpu(context), args);
}

absl::Status LogDecay(KernelContext& context, const LogDecayArgs& args) {
  constexpr int64_t kTask = 4096;
  const int64_t count = args.rows * args.columns;
  Cpu(context).pool().ParallelFor((count + kTask - 1) / kTask, [&](int64_t task, int) {
    float* values = args.values + task * kTask;
    ForEach(std::min(kTask, count - task * kTask), [&](auto d, int64_t i) HWY_ATTR {
      const auto z = hn::LoadU(d, values + i);
      if (args.kind == DecayKind::kSelectiveText) {
        // e = exp(-|z|); sigmoid(-z) is e / (1 + e) for z > 0, and 1 less that otherwise.
        const auto one = hn::Set(d, 1.0f), tiny = hn::Set(d, 1e-7f);
        const auto e = hn::Exp(d, hn::Neg(hn::Abs(z)));
        const auto tail = hn::Div(e, hn::Add(one, e));
        const auto closed = hn::Log(d, hn::Add(tail, tiny));
        const auto open = hn::Log1p(d, hn::Sub(tiny, tail));
        hn::StoreU(KeepNaN<decltype(d)>(z, hn::IfThenElse(hn::Gt(z, hn::Zero(d)), closed, open)), d, values + i);
      } else {
        const auto logit = args.kind == DecayKind::kLearned ? hn::Neg(z) : z;
        hn::StoreU(hn::Neg(Softplus(d, logit)), d, values + i);
      }
    });
  });
  for (size_t s = 0; s + 1 < args.offsets.size(); ++s) {
    std::fill_n(args.values + args.offsets[s] * args.columns, args.columns, 0.0f);
  }
  return absl::OkStatus();
}

template <typename O>
int64_t ChunkBytes(const ContextOptions& options) {
  const int64_t blocks = (options.max_tokens + kBlock - 1) / kBlock;
  return ChunkMemory<O>::Bytes(
      {.blocks = std::max(blocks, std::min(blocks * options.heads, MixerGroupBlocks(options.threads))),
       .padded = PaddedOperand(options.head_width),
       .directions = options.decay_orders == 0 ? 1 : 2,
       .orders = std::max(1, options.decay_orders)});
}
[[maybe_unused]] MixerScratch ScratchOf(const ContextOptions& options) {
  if (options.max_tokens == 0) return {};
  if (options.mixer == MixerForm::kRecurrent || options.mixer == MixerForm::kAttention) {
    return {.thread_bytes = ScanScratch::Bytes(options.max_tokens, options.head_width)};
  }
  return {.shared_bytes =
              options.type == DataType::kFloat32 ? ChunkBytes<float>(options) : ChunkBytes<uint16_t>(options)};
}

MixerFn GetMixer() { return &Mixer; }
SoftmaxAttentionFn GetSoftmaxAttention() { return &SoftmaxAttention; }
LogDecayFn GetLogDecay() { return &LogDecay; }

}  // namespace
}  // namespace lion::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lion::cpu {
#ifndef HWY_COMPILE_ONLY_SCALAR
MixerScratch MixerScratchOf(const ContextOptions& options) { return HWY_STATIC_DISPATCH(ScratchOf)(options); }
#endif
namespace LION_CPU_EXPORTS {
HWY_EXPORT(GetMixer);
HWY_EXPORT(GetSoftmaxAttention);
HWY_EXPORT(GetLogDecay);
void ExportMixer(Operations& table) {
  table.mixer = HWY_DYNAMIC_DISPATCH(GetMixer)();
  table.softmax_attention = HWY_DYNAMIC_DISPATCH(GetSoftmaxAttention)();
  table.log_decay = HWY_DYNAMIC_DISPATCH(GetLogDecay)();
}
}  // namespace LION_CPU_EXPORTS
}  // namespace lion::cpu
#endif
