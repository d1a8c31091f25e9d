// The mixer in all forms against the goldens, the float64 reference, and itself in other batches.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <string>

#include "kernels/mixer.h"
#include "tests/kernels/test_kernels.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using testing::Buffer;
using testing::Near;

constexpr MixerForm kForms[] = {MixerForm::kChunk, MixerForm::kRecurrent, MixerForm::kAttention};

std::string FormName(MixerForm form) {
  return form == MixerForm::kChunk ? "chunk" : form == MixerForm::kRecurrent ? "recurrent" : "attention";
}

// A ragged batch, and the mixer's settings but for form and type.
struct Case {
  std::vector<int64_t> offsets;
  int64_t heads = 2;
  int64_t head_width = 16;
  std::vector<float> qkv;           // [tokens, 3, H, d]
  std::vector<float> log_decay[2];  // [tokens, H], [H] with a constant decay, or empty
  bool constant_decay = false;
  std::vector<int32_t> permutation[2];  // or empty
  FeatureMap feature_map = FeatureMap::kNormalizedSilu;
  int orders = 1;
  bool normalize = true;

  int64_t tokens() const { return offsets.back(); }
};

std::vector<float> RunMixer(const Operations& kernels, const Case& c, MixerForm form, DataType type, int threads) {
  const auto context = testing::MakeContext(kernels, threads);
  Buffer qkv = Buffer::Of(type, c.qkv), output(type, c.tokens() * c.heads * c.head_width);
  MixerArgs args{.offsets = c.offsets,
                 .heads = c.heads,
                 .head_width = c.head_width,
                 .qkv = qkv.data(),
                 .type = type,
                 .feature_map = c.feature_map,
                 .orders = {},
                 .order_count = c.orders,
                 .normalize = c.normalize,
                 .scale = 1 / std::sqrt(static_cast<float>(c.head_width)),
                 .form = form,
                 .output = output.data()};
  for (int o = 0; o < c.orders; ++o) {
    if (!c.log_decay[o].empty()) args.orders[o].log_decay = c.log_decay[o].data();
    args.orders[o].token_stride = c.constant_decay ? 0 : c.heads;
    if (!c.permutation[o].empty()) args.orders[o].permutation = c.permutation[o].data();
  }
  EXPECT_TRUE(kernels.mixer(*context, args).ok());
  EXPECT_TRUE(output.guards_intact());
  return output.values();
}

enum class Decay { kNone, kConstant, kPerToken, kSaturated };

Case MakeCase(std::mt19937& random, std::initializer_list<int64_t> lengths, int64_t head_width, Decay decay, int orders,
              FeatureMap map, bool normalize) {
  Case c;
  c.offsets = testing::Offsets(lengths);
  c.head_width = head_width;
  c.feature_map = map;
  c.orders = orders;
  c.normalize = normalize;
  c.qkv = testing::Normal(random, c.tokens() * 3 * c.heads * head_width);
  c.constant_decay = decay == Decay::kConstant;
  for (int o = 0; o < orders; ++o) {
    if (decay == Decay::kConstant) c.log_decay[o] = {-0.01f, -0.7f};
    if (decay == Decay::kPerToken || decay == Decay::kSaturated) {
      const float spread = decay == Decay::kSaturated ? 30 : 3;
      c.log_decay[o] = testing::Normal(random, c.tokens() * c.heads, spread);
      for (float& value : c.log_decay[o]) value = -std::max(value, 0.0f) - std::log1p(std::exp(-std::abs(value)));
    }
    if (orders == 2) {
      for (size_t s = 0; s + 1 < c.offsets.size(); ++s) {
        std::vector<int32_t> places(c.offsets[s + 1] - c.offsets[s]);
        std::iota(places.begin(), places.end(), 0);
        std::shuffle(places.begin() + (places.empty() ? 0 : 1), places.end(), random);
        c.permutation[o].insert(c.permutation[o].end(), places.begin(), places.end());
      }
    }
  }
  return c;
}

TEST(MixerKernel, EveryFormGivesTheGoldenAnswers) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  const struct {
    const char* file;
    FeatureMap map;
    bool normalize;
    DecayKind decay;
  } kinds[] = {{"lit_vision", FeatureMap::kEluPlusOne, true, DecayKind::kLearned},
               {"decay_vision", FeatureMap::kNormalizedSilu, true, DecayKind::kLearned},
               {"selective_vision", FeatureMap::kNormalizedSilu, true, DecayKind::kSelectiveVision},
               {"selective_text", FeatureMap::kIdentity, false, DecayKind::kSelectiveText}};
  for (const auto& kind : kinds) {
    const auto golden = testing::ReadGolden(std::string("tests/golden/mixer/") + kind.file + ".safetensors");
    for (int n = 0; golden.contains("q." + std::to_string(n)); ++n) {
      const std::string suffix = "." + std::to_string(n);
      const auto& shape = golden.at("q" + suffix).shape;
      Case c;
      c.heads = shape[0];
      c.head_width = shape[2];
      c.offsets = {0, shape[1]};
      c.feature_map = kind.map;
      c.normalize = kind.normalize;
      // [H, L, d] -> [L, 3, H, d]
      c.qkv.resize(shape[1] * 3 * shape[0] * shape[2]);
      const char* parts[] = {"q", "k", "v"};
      std::vector<double> want(shape[0] * shape[1] * shape[2]);
      for (int64_t h = 0; h < shape[0]; ++h) {
        for (int64_t i = 0; i < shape[1]; ++i) {
          for (int64_t w = 0; w < shape[2]; ++w) {
            const int64_t from = (h * shape[1] + i) * shape[2] + w;
            for (int part = 0; part < 3; ++part) {
              c.qkv[((i * 3 + part) * shape[0] + h) * shape[2] + w] =
                  static_cast<float>(golden.at(parts[part] + suffix).values[from]);
            }
            want[(i * shape[0] + h) * shape[2] + w] = golden.at("y" + suffix).values[from];
          }
        }
      }
      if (kind.map != FeatureMap::kEluPlusOne) {
        const auto& gate = golden.at("gate_logit" + suffix).values;
        c.constant_decay = kind.decay == DecayKind::kLearned;
        for (int64_t i = 0; i < (c.constant_decay ? 1 : shape[1]); ++i) {
          for (int64_t h = 0; h < shape[0]; ++h) c.log_decay[0].push_back(static_cast<float>(gate[h * shape[1] + i]));
        }
        const auto context = testing::MakeContext(cpu, 1);
        ASSERT_TRUE(cpu.log_decay(*context, {.kind = kind.decay,
                                             .values = c.log_decay[0].data(),
                                             .rows = static_cast<int64_t>(c.log_decay[0].size()) / c.heads,
                                             .columns = c.heads,
                                             .offsets = {}})
                        .ok());
      }
      for (const MixerForm form : kForms) {
        for (const Operations* kernels : {&cpu, &ReferenceOperations()}) {
          EXPECT_TRUE(Near(RunMixer(*kernels, c, form, DataType::kFloat32, 2), want, testing::kFloat32Bound))
              << kind.file << suffix << " " << FormName(form) << " " << kernels->name;
        }
        EXPECT_TRUE(Near(RunMixer(cpu, c, form, DataType::kBFloat16, 2), want, testing::kBFloat16Bound))
            << kind.file << suffix << " " << FormName(form) << " bfloat16";
      }
    }
  }
}

TEST(MixerKernel, FormsAgreeWithTheReferenceOnAwkwardShapes) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(1);
  for (const int64_t width : {1, 12, 33, 64}) {
    for (const Decay decay : {Decay::kNone, Decay::kConstant, Decay::kPerToken, Decay::kSaturated}) {
      for (const int orders : {1, 2}) {
        for (const FeatureMap map : {FeatureMap::kIdentity, FeatureMap::kEluPlusOne, FeatureMap::kNormalizedSilu}) {
          // Without a positive feature map the normaliser may vanish: text models do not normalise.
          const bool normalize = map != FeatureMap::kIdentity;
          if (width > 16 && map == FeatureMap::kEluPlusOne) continue;
          const Case c = MakeCase(random, {1, 2, 15, 63, 1, 64, 65, 130}, width, decay, orders, map, normalize);
          const std::vector<float> want =
              RunMixer(ReferenceOperations(), c, MixerForm::kAttention, DataType::kFloat32, 1);
          EXPECT_TRUE(
              Near(RunMixer(ReferenceOperations(), c, MixerForm::kRecurrent, DataType::kFloat32, 1), want, 1e-6));
          for (const MixerForm form : kForms) {
            EXPECT_TRUE(Near(RunMixer(cpu, c, form, DataType::kFloat32, 2), want, testing::kFloat32Bound))
                << "d=" << width << " decay=" << static_cast<int>(decay) << " orders=" << orders
                << " map=" << static_cast<int>(map) << " " << FormName(form);
          }
          EXPECT_TRUE(
              Near(RunMixer(cpu, c, MixerForm::kChunk, DataType::kBFloat16, 2), want, 2 * testing::kBFloat16Bound));
        }
      }
    }
  }
}

TEST(MixerKernel, LargeInputsEqualTheReference) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(7);
  for (const FeatureMap map : {FeatureMap::kEluPlusOne, FeatureMap::kNormalizedSilu}) {
    for (const float spread : {60.0f, 300.0f, 3000.0f}) {
      Case c = MakeCase(random, {100}, 16, Decay::kPerToken, 1, map, true);
      for (float& value : c.qkv) value *= spread;
      const std::vector<float> want = RunMixer(ReferenceOperations(), c, MixerForm::kRecurrent, DataType::kFloat32, 1);
      for (const MixerForm form : kForms) {
        EXPECT_TRUE(Near(RunMixer(cpu, c, form, DataType::kFloat32, 1), want, testing::kFloat32Bound))
            << "values of about " << spread << " " << FormName(form);
      }
    }
  }
}

TEST(MixerKernel, LongSequencesStayFiniteAndEqualInAllForms) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(2);
  for (const Decay decay : {Decay::kNone, Decay::kSaturated}) {
    const Case c = MakeCase(random, {500, 4097}, 16, decay, 2, FeatureMap::kNormalizedSilu, true);
    const std::vector<float> want = RunMixer(ReferenceOperations(), c, MixerForm::kRecurrent, DataType::kFloat32, 1);
    for (const MixerForm form : kForms) {
      EXPECT_TRUE(Near(RunMixer(cpu, c, form, DataType::kFloat32, 2), want, testing::kFloat32Bound)) << FormName(form);
    }
  }
}

TEST(MixerKernel, TheSameTokenOverAndOverStaysFinite) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(3);
  for (const int64_t length : {1024, 8192, 65536}) {
    Case c = MakeCase(random, {1}, 16, Decay::kNone, 1, FeatureMap::kEluPlusOne, true);
    const std::vector<float> token = c.qkv;
    c.offsets = {0, length};
    c.qkv.clear();
    for (int64_t i = 0; i < length; ++i) c.qkv.insert(c.qkv.end(), token.begin(), token.end());
    // Every token attends to equal tokens: the answer is its own v.
    std::vector<float> want;
    for (int64_t i = 0; i < length; ++i) want.insert(want.end(), token.begin() + 64, token.end());
    for (const MixerForm form : kForms) {
      if (form == MixerForm::kAttention && length > 8192) continue;  // time grows with the square
      EXPECT_TRUE(Near(RunMixer(cpu, c, form, DataType::kFloat32, 2), want, testing::kFloat32Bound))
          << length << " " << FormName(form);
    }
  }
}

// Each sequence of the batch alone, with another number of threads: the same bits.
void ExpectTheSameAlone(const Operations& cpu, const Case& batch, MixerForm form, DataType type, int threads) {
  const std::vector<float> together = RunMixer(cpu, batch, form, type, threads);
  const int64_t row = batch.heads * batch.head_width;
  for (size_t s = 0; s + 1 < batch.offsets.size(); ++s) {
    const int64_t begin = batch.offsets[s], end = batch.offsets[s + 1];
    Case alone = batch;
    alone.offsets = {0, end - begin};
    alone.qkv.assign(batch.qkv.begin() + begin * 3 * row, batch.qkv.begin() + end * 3 * row);
    for (int o = 0; o < batch.orders; ++o) {
      const auto cut = [&](auto& part, const auto& all, int64_t columns) {
        if (!all.empty()) part.assign(all.begin() + begin * columns, all.begin() + end * columns);
      };
      if (!batch.constant_decay) cut(alone.log_decay[o], batch.log_decay[o], batch.heads);
      cut(alone.permutation[o], batch.permutation[o], 1);
    }
    const std::vector<float> want(together.begin() + begin * row, together.begin() + end * row);
    EXPECT_EQ(RunMixer(cpu, alone, form, type, 1), want) << FormName(form) << " sequence " << s;
  }
}

TEST(MixerKernel, ASequenceDoesNotFeelItsBatch) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(4);
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    for (const MixerForm form : kForms) {
      const Case batch =
          MakeCase(random, {130, 1, 77, 300}, 12, Decay::kPerToken, 2, FeatureMap::kNormalizedSilu, true);
      ExpectTheSameAlone(cpu, batch, form, type, 2);
    }
  }
}

// The chunk form works on groups of sequences and heads: here on several, one of them a single long sequence.
TEST(MixerKernel, ASequenceDoesNotFeelItsGroup) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(8);
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    for (const Decay decay : {Decay::kNone, Decay::kConstant, Decay::kPerToken}) {
      for (const int orders : {1, 2}) {
        const Case batch = MakeCase(random, {197, 1, 4097, 64, 65, 500, 197, 1100}, 64, decay, orders,
                                    FeatureMap::kNormalizedSilu, true);
        ExpectTheSameAlone(cpu, batch, MixerForm::kChunk, type, 3);
      }
    }
  }
}

TEST(MixerKernel, TensOfThousandsOfTokensEqualTheReference) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(9);
  for (const Decay decay : {Decay::kNone, Decay::kConstant, Decay::kPerToken}) {
    const FeatureMap map = decay == Decay::kNone ? FeatureMap::kEluPlusOne : FeatureMap::kNormalizedSilu;
    Case c = MakeCase(random, {65537}, 16, decay, 1, map, true);
    // States that gather all of the tokens: these are the sums that could lose digits.
    for (float& value : c.log_decay[0]) value *= 1e-5f;
    const std::vector<float> want = RunMixer(ReferenceOperations(), c, MixerForm::kRecurrent, DataType::kFloat32, 1);
    EXPECT_TRUE(Near(RunMixer(cpu, c, MixerForm::kChunk, DataType::kFloat32, 2), want, testing::kFloat32Bound));
    EXPECT_TRUE(Near(RunMixer(cpu, c, MixerForm::kChunk, DataType::kBFloat16, 2),
                     RunMixer(ReferenceOperations(), c, MixerForm::kRecurrent, DataType::kBFloat16, 1),
                     testing::kBFloat16Bound))
        << "decay=" << static_cast<int>(decay);
  }
}

TEST(MixerKernel, WideHeadsAndOrdersOfDifferentKindsEqualTheReference) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(10);
  for (const int64_t width : {80, 256}) {
    for (const Decay decay : {Decay::kNone, Decay::kPerToken}) {
      Case c = MakeCase(random, {65, 40, 197}, width, decay, 2, FeatureMap::kNormalizedSilu, true);
      for (const bool mixed : {false, true}) {
        if (mixed) c.log_decay[1].clear();
        const std::vector<float> want =
            RunMixer(ReferenceOperations(), c, MixerForm::kRecurrent, DataType::kFloat32, 1);
        EXPECT_TRUE(Near(RunMixer(cpu, c, MixerForm::kChunk, DataType::kFloat32, 2), want, testing::kFloat32Bound));
        EXPECT_TRUE(
            Near(RunMixer(cpu, c, MixerForm::kChunk, DataType::kBFloat16, 2), want, 2 * testing::kBFloat16Bound));
      }
    }
  }
}

TEST(MixerKernel, NaNComesThrough) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(5);
  for (const FeatureMap map : {FeatureMap::kEluPlusOne, FeatureMap::kNormalizedSilu}) {
    for (const MixerForm form : kForms) {
      for (const bool in_gate : {false, true}) {
        // Positive and negative, with the payload of arithmetic and with all bits set.
        for (const uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7fffffffu, 0xffffffffu}) {
          for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
            Case c = MakeCase(random, {70}, 16, Decay::kPerToken, 1, map, true);
            (in_gate ? c.log_decay[0][3] : c.qkv[40]) = std::bit_cast<float>(bits);
            bool any = false;
            for (float value : RunMixer(cpu, c, form, type, 1)) any = any || std::isnan(value);
            EXPECT_TRUE(any) << FormName(form) << (in_gate ? " gate " : " qkv ") << bits;
          }
        }
      }
    }
  }
}

// One faulty token reaches every token of its sequence that sees it, in q only its own.
TEST(MixerKernel, NaNInBFloat16Spreads) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(11);
  for (const Decay decay : {Decay::kNone, Decay::kConstant, Decay::kPerToken}) {
    for (const int part : {0, 1, 2}) {
      Case c = MakeCase(random, {200, 90}, 64, decay, 2, FeatureMap::kNormalizedSilu, true);
      const int64_t row = c.heads * c.head_width, token = 130;
      c.qkv[(token * 3 + part) * row + 7] = std::nanf("");
      const std::vector<float> got = RunMixer(cpu, c, MixerForm::kChunk, DataType::kBFloat16, 2);
      for (int64_t t = 0; t < c.tokens(); ++t) {
        const bool want = part == 0 ? t == token : t < 200;
        bool any = false;
        for (int64_t i = 0; i < c.head_width; ++i) any = any || std::isnan(got[t * row + i]);
        EXPECT_EQ(any, want) << "part " << part << " token " << t << " decay " << static_cast<int>(decay);
      }
    }
  }
}

TEST(MixerKernel, SoftmaxAttentionEqualsTheReference) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(6);
  for (const int64_t width : {12, 64}) {
    for (const float spread : {1.0f, 20.0f}) {
      Case c = MakeCase(random, {1, 2, 64, 65, 197}, width, Decay::kNone, 1, FeatureMap::kIdentity, false);
      for (float& value : c.qkv) value *= spread;
      const auto run = [&](const Operations& kernels, DataType type) {
        const auto context = testing::MakeContext(kernels, 2);
        Buffer qkv = Buffer::Of(type, c.qkv), output(type, c.tokens() * c.heads * width);
        EXPECT_TRUE(kernels
                        .softmax_attention(*context, {.offsets = c.offsets,
                                                      .heads = c.heads,
                                                      .head_width = width,
                                                      .qkv = qkv.data(),
                                                      .type = type,
                                                      .scale = 1 / std::sqrt(static_cast<float>(width)),
                                                      .output = output.data()})
                        .ok());
        EXPECT_TRUE(output.guards_intact());
        return output.values();
      };
      const std::vector<float> want = run(ReferenceOperations(), DataType::kFloat32);
      EXPECT_TRUE(Near(run(cpu, DataType::kFloat32), want, testing::kFloat32Bound));
      EXPECT_TRUE(Near(run(cpu, DataType::kBFloat16), run(ReferenceOperations(), DataType::kBFloat16), 1e-2));
    }
  }
}

TEST(MixerKernel, LogDecayIsExactAtSaturatedLogits) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  const std::vector<float> logits = {-100, -30, -17, -5, -1, -1e-3f, 0, 1e-3f, 1, 5, 17, 30, 88, 100, 1000, -1000};
  for (const DecayKind kind : {DecayKind::kSelectiveVision, DecayKind::kSelectiveText, DecayKind::kLearned}) {
    const auto run = [&](const Operations& kernels) {
      const auto context = testing::MakeContext(kernels, 1);
      std::vector<float> values = logits;
      const std::vector<int64_t> none;
      EXPECT_TRUE(
          kernels.log_decay(*context, {kind, values.data(), static_cast<int64_t>(values.size()), 1, none}).ok());
      return values;
    };
    const std::vector<float> got = run(cpu), want = run(ReferenceOperations());
    for (size_t i = 0; i < logits.size(); ++i) {
      EXPECT_TRUE(std::isfinite(got[i]));
      EXPECT_NEAR(got[i], want[i], 1e-12 + 1e-6 * std::abs(want[i])) << "logit " << logits[i];
    }
  }
}

TEST(MixerKernel, ClassTokensDoNotDecay) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::vector<float> values(5 * 2, 1.0f);
  const std::vector<int64_t> offsets = {0, 2, 5};
  const auto context = testing::MakeContext(cpu, 1);
  ASSERT_TRUE(cpu.log_decay(*context, {DecayKind::kSelectiveVision, values.data(), 5, 2, offsets}).ok());
  for (int token = 0; token < 5; ++token) {
    const float want = token == 0 || token == 2 ? 0.0f : -1.3132617f;
    EXPECT_NEAR(values[token * 2], want, 1e-6);
    EXPECT_NEAR(values[token * 2 + 1], want, 1e-6);
  }
}

}  // namespace
}  // namespace lion
