// The mixer in all forms against the goldens, the float64 reference, and itself in other batches.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "kernels/mixer.h"
#include "tests/kernels/mixer_cases.h"
#include "tests/kernels/test_kernels.h"
#include "tests/support/compare.h"

namespace lion {
namespace {

using testing::Buffer;
using testing::Decay;
using testing::GoldenMixerCase;
using testing::MakeMixerCase;
using testing::MixerCase;
using testing::Near;

constexpr MixerForm kForms[] = {MixerForm::kChunk, MixerForm::kRecurrent, MixerForm::kAttention};

std::string FormName(MixerForm form) {
  return form == MixerForm::kChunk ? "chunk" : form == MixerForm::kRecurrent ? "recurrent" : "attention";
}

std::vector<float> RunMixer(const Operations& kernels, const MixerCase& c, MixerForm form, DataType type, int threads) {
  const auto context = testing::MakeContext(kernels, threads);
  Buffer qkv = Buffer::Of(type, c.qkv), output(type, c.tokens() * c.heads * c.head_width);
  MixerArgs args = testing::MixerArgsOf(c);
  args.qkv = qkv.data();
  args.type = type;
  args.form = form;
  args.output = output.data();
  EXPECT_TRUE(kernels.mixer(*context, args).ok());
  EXPECT_TRUE(output.guards_intact());
  return output.values();
}

TEST(MixerKernel, EveryFormGivesTheGoldenAnswers) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  for (GoldenMixerCase& golden : testing::GoldenMixerCases()) {
    MixerCase& c = golden.mixer;
    if (!c.log_decay[0].empty()) {
      const auto context = testing::MakeContext(cpu, 1);
      ASSERT_TRUE(cpu.log_decay(*context, {.kind = golden.decay,
                                           .values = c.log_decay[0].data(),
                                           .rows = static_cast<int64_t>(c.log_decay[0].size()) / c.heads,
                                           .columns = c.heads,
                                           .offsets = {}})
                      .ok());
    }
    for (const MixerForm form : kForms) {
      for (const Operations* kernels : {&cpu, &ReferenceOperations()}) {
        EXPECT_TRUE(Near(RunMixer(*kernels, c, form, DataType::kFloat32, 2), golden.want, testing::kFloat32Bound))
            << golden.name << " " << FormName(form) << " " << kernels->name;
      }
      EXPECT_TRUE(Near(RunMixer(cpu, c, form, DataType::kBFloat16, 2), golden.want, testing::kBFloat16Bound))
          << golden.name << " " << FormName(form) << " bfloat16";
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
          const MixerCase c =
              MakeMixerCase(random, {1, 2, 15, 63, 1, 64, 65, 130}, width, decay, orders, map, normalize);
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
      MixerCase c = MakeMixerCase(random, {100}, 16, Decay::kPerToken, 1, map, true);
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
    const MixerCase c = MakeMixerCase(random, {500, 4097}, 16, decay, 2, FeatureMap::kNormalizedSilu, true);
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
    MixerCase c = MakeMixerCase(random, {1}, 16, Decay::kNone, 1, FeatureMap::kEluPlusOne, true);
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
void ExpectTheSameAlone(const Operations& cpu, const MixerCase& batch, MixerForm form, DataType type, int threads) {
  const std::vector<float> together = RunMixer(cpu, batch, form, type, threads);
  const int64_t row = batch.heads * batch.head_width;
  for (size_t s = 0; s + 1 < batch.offsets.size(); ++s) {
    const std::vector<float> want(together.begin() + batch.offsets[s] * row,
                                  together.begin() + batch.offsets[s + 1] * row);
    EXPECT_EQ(RunMixer(cpu, testing::AloneInBatch(batch, s), form, type, 1), want)
        << FormName(form) << " sequence " << s;
  }
}

TEST(MixerKernel, ASequenceDoesNotFeelItsBatch) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(4);
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    for (const MixerForm form : kForms) {
      const MixerCase batch =
          MakeMixerCase(random, {130, 1, 77, 300}, 12, Decay::kPerToken, 2, FeatureMap::kNormalizedSilu, true);
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
        const MixerCase batch = MakeMixerCase(random, {197, 1, 4097, 64, 65, 500, 197, 1100}, 64, decay, orders,
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
    MixerCase c = MakeMixerCase(random, {65537}, 16, decay, 1, map, true);
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
      MixerCase c = MakeMixerCase(random, {65, 40, 197}, width, decay, 2, FeatureMap::kNormalizedSilu, true);
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
            MixerCase c = MakeMixerCase(random, {70}, 16, Decay::kPerToken, 1, map, true);
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
      MixerCase c = MakeMixerCase(random, {200, 90}, 64, decay, 2, FeatureMap::kNormalizedSilu, true);
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
      MixerCase c = MakeMixerCase(random, {1, 2, 64, 65, 197}, width, Decay::kNone, 1, FeatureMap::kIdentity, false);
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
