// The mixer of every variant in every form, softmax attention beside it, and the gates' log decays.
#include "kernels/mixer.h"

#include <cmath>

#include "benchmarks/kernels/measure.h"
#include "benchmarks/kernels/sizes.h"
#include "engine/patch_order.h"

namespace lion {
namespace {

enum class Mixing : uint8_t { kLit, kD, kS, kSoftmax };

struct MixerShape {
  Mixing mixing = Mixing::kLit;
  int orders = 1;
  MixerForm form = MixerForm::kChunk;
  int64_t grid = 0;  // one image of grid x grid patches
  int64_t width = 0;
  int64_t heads = 0;
  DataType type = DataType::kFloat32;

  int64_t tokens() const { return 1 + grid * grid; }
  int64_t head_width() const { return width / heads; }
};

// Useful operations (docs/mathematics.md, section 1), C = 64: both directions together, for each order of the scan.
double Flops(const MixerShape& s) {
  const double d = static_cast<double>(s.head_width()), tokens = static_cast<double>(s.tokens());
  const double attention = 4 * tokens * d, chunk = 4 * 64 * d + 8 * d * d, recurrent = 10 * d * d;
  double each = s.form == MixerForm::kAttention ? attention : s.form == MixerForm::kRecurrent ? recurrent : chunk;
  // One state for the whole sequence.
  if (s.mixing == Mixing::kLit && s.form == MixerForm::kChunk) each = 4 * d * d;
  return each * tokens * static_cast<double>(s.heads) * s.orders;
}

struct MixerOperands {
  explicit MixerOperands(const MixerShape& shape)
      : s(shape),
        offsets({0, shape.tokens()}),
        qkv(shape.type, Normal(shape.tokens() * 3 * shape.width, 1)),
        output(shape.type, shape.tokens() * shape.width) {
    for (auto& place : places) place.resize(s.tokens());
    RowSerpentine(s.grid, s.grid, places[0]);
    ColumnSerpentine(s.grid, s.grid, places[1]);
    // log lambda = -softplus(z), lambda mostly between 0.7 and 0.999.
    log_decay = Normal(s.tokens() * s.orders * s.heads, 1, -3);
    for (float& value : log_decay) value = -std::log1p(std::exp(value));
  }

  absl::Status Run(const Operations& kernels, KernelContext& context, MixerForm form, const Array& to) const {
    const float scale = 1 / std::sqrt(static_cast<float>(s.head_width()));
    if (s.mixing == Mixing::kSoftmax) {
      return kernels.softmax_attention(context, {.offsets = offsets,
                                                 .heads = s.heads,
                                                 .head_width = s.head_width(),
                                                 .qkv = qkv.data(),
                                                 .type = s.type,
                                                 .scale = scale,
                                                 .output = to.data()});
    }
    MixerArgs args{.offsets = offsets,
                   .heads = s.heads,
                   .head_width = s.head_width(),
                   .qkv = qkv.data(),
                   .type = s.type,
                   .feature_map = s.mixing == Mixing::kLit ? FeatureMap::kEluPlusOne : FeatureMap::kNormalizedSilu,
                   .orders = {},
                   .order_count = s.orders,
                   .normalize = true,
                   .scale = scale,
                   .form = form,
                   .output = to.data()};
    for (int order = 0; order < s.orders; ++order) {
      if (s.mixing != Mixing::kLit) args.orders[order].log_decay = log_decay.data() + order * s.heads;
      if (s.mixing == Mixing::kS) args.orders[order].token_stride = s.orders * s.heads;
      if (s.orders == 2) args.orders[order].permutation = places[order].data();
    }
    return kernels.mixer(context, args);
  }

  // The reference on the same input, by the plain recurrence: the attention form takes too long for many tokens.
  std::string Mistake(Bench& bench) const {
    const Array want(s.type, s.tokens() * s.width);
    const auto status = Run(ReferenceOperations(), *bench.reference_context, MixerForm::kRecurrent, want);
    return status.ok() ? Compare(s.type, output.values(), want.values()) : status.ToString();
  }

  MixerShape s;
  std::vector<int64_t> offsets;
  Array qkv, output;
  std::vector<float> log_decay;  // [tokens, orders, H]; LION-D uses the first row
  std::vector<int32_t> places[2];
};

KernelCase MakeMixer(Bench& bench, const MixerShape& shape) {
  const auto operands = std::make_shared<MixerOperands>(shape);
  // Only the chunk form multiplies in the type of q, k and v.
  return {.product = shape.form == MixerForm::kChunk ? shape.type : DataType::kFloat32,
          .tokens = static_cast<double>(shape.tokens()),
          .flops = Flops(shape),
          .prepare = {},
          .run = [&bench, operands,
                  form = shape.form] { return operands->Run(*bench.cpu, *bench.context, form, operands->output); },
          .mistake = [&bench, operands] { return operands->Mistake(bench); }};
}

KernelCase MakeLogDecay(Bench& bench, int64_t tokens, int64_t heads) {
  struct Operands {
    std::vector<float> logits;
    Array values;
    std::vector<int64_t> offsets;
  };
  const auto o = std::make_shared<Operands>(
      Operands{Normal(tokens * heads, 3), Array(DataType::kFloat32, tokens * heads), {0, tokens}});
  const auto args = [o, tokens, heads](float* values) {
    return LogDecayArgs{
        .kind = DecayKind::kSelectiveVision, .values = values, .rows = tokens, .columns = heads, .offsets = o->offsets};
  };
  return {.tokens = static_cast<double>(tokens),
          .bytes = 8.0 * static_cast<double>(tokens * heads),
          .prepare = [o] { o->values.Set(o->logits); },  // in place
          .run = [&bench, o, args] { return bench.cpu->log_decay(*bench.context, args(o->values.floats())); },
          .mistake = [&bench, o, args]() -> std::string {
            const Array want(DataType::kFloat32, o->logits);
            const auto status = ReferenceOperations().log_decay(*bench.reference_context, args(want.floats()));
            return status.ok() ? Compare(DataType::kFloat32, o->values.values(), want.values()) : status.ToString();
          }};
}

struct Variant {
  const char* name;
  Mixing mixing;
  int orders;
};
constexpr Variant kVariants[] = {{"lit", Mixing::kLit, 1},     {"d", Mixing::kD, 1},
                                 {"d_s_order", Mixing::kD, 2}, {"s", Mixing::kS, 1},
                                 {"s_s_order", Mixing::kS, 2}, {"softmax", Mixing::kSoftmax, 1}};

}  // namespace

void RegisterMixer(Bench& bench) {
  struct Form {
    const char* name;
    MixerForm form;
  };
  const Form forms[] = {
      {"chunk", MixerForm::kChunk}, {"recurrent", MixerForm::kRecurrent}, {"attention", MixerForm::kAttention}};
  for (const ModelSize& size : kModelSizes) {
    for (const Variant& variant : kVariants) {
      for (const Form& form : forms) {
        const bool softmax = variant.mixing == Mixing::kSoftmax;
        if (softmax && form.form != MixerForm::kAttention) continue;
        // The slow forms of the larger models say nothing new.
        if (!softmax && form.form != MixerForm::kChunk && size.width > 192) continue;
        for (const int64_t grid : {kGrid, kLargeGrid}) {
          // The reference would take a minute.
          if (softmax && grid == kLargeGrid && size.width > 192) continue;
          for (const DataType type : bench.types()) {
            const MixerShape shape{variant.mixing, variant.orders, form.form, grid, size.width, size.heads, type};
            const std::string name = std::string("mixer/") + variant.name + "/" + form.name + "/" + size.name + "/" +
                                     std::to_string(shape.tokens()) + "/" + bench.Suffix(type);
            Register(bench, name, [shape](Bench& b) { return MakeMixer(b, shape); });
          }
        }
      }
    }
    const std::string name = std::string("log_decay/") + size.name + "/" + std::to_string(kEightImages) + "/" +
                             bench.Suffix(DataType::kFloat32);
    Register(bench, name, [heads = size.heads](Bench& b) { return MakeLogDecay(b, kEightImages, heads); });
  }
}

}  // namespace lion
