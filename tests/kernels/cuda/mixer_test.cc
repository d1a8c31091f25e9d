// The GPU's mixer, on the host, against the goldens, the float64 reference, and itself in other batches.

#include "kernels/cuda/mixer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "kernels/cuda/emulated/block.h"
#include "tests/kernels/mixer_cases.h"
#include "tests/kernels/test_kernels.h"
#include "tests/support/compare.h"

namespace lion::cuda {
namespace {

using ::lion::testing::Buffer;
using ::lion::testing::Decay;
using ::lion::testing::kBFloat16Bound;
using ::lion::testing::kFloat32Bound;
using ::lion::testing::MakeMixerCase;
using ::lion::testing::MixerCase;
using ::lion::testing::Near;

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBFloat16};

// Sanitized fibers are slow.
#ifdef LION_SANITIZED
constexpr int64_t kLongest = 1025;
#else
constexpr int64_t kLongest = 4097;
#endif

double Bound(DataType type) { return type == DataType::kFloat32 ? kFloat32Bound : kBFloat16Bound; }

std::vector<float> RunMixer(const MixerCase& c, DataType type, int chunk_tokens = 128) {
  Buffer qkv = Buffer::Of(type, c.qkv), output(type, c.tokens() * c.heads * c.head_width);
  MixerArgs args = testing::MixerArgsOf(c);
  args.qkv = qkv.data();
  args.type = type;
  args.output = output.data();
  MixerPlan plan;
  PlanMixer(c.offsets, chunk_tokens, plan);
  args.offsets = {};
  Buffer workspace(DataType::kFloat32, (MixerWorkspaceBytes(args, plan) + 3) / 4);
  const LaunchResult result = Mixer(args, plan, plan.parts.data(), workspace.data(), nullptr);
  EXPECT_TRUE(result.ok()) << result.fault;
  EXPECT_TRUE(output.guards_intact() && workspace.guards_intact());
  return output.values();
}

std::vector<float> Reference(const MixerCase& c, DataType type, MixerForm form = MixerForm::kAttention) {
  const Operations& reference = ReferenceOperations();
  const auto context = testing::MakeContext(reference, 1);
  Buffer qkv = Buffer::Of(type, c.qkv), output(type, c.tokens() * c.heads * c.head_width);
  MixerArgs args = testing::MixerArgsOf(c);
  args.qkv = qkv.data();
  args.type = type;
  args.form = form;
  args.output = output.data();
  EXPECT_TRUE(reference.mixer(*context, args).ok());
  return output.values();
}

void ExpectReference(const MixerCase& c, int chunk_tokens, const char* what) {
  for (const DataType type : kTypes) {
    EXPECT_TRUE(Near(RunMixer(c, type, chunk_tokens), Reference(c, type, MixerForm::kRecurrent), Bound(type)))
        << what << " d=" << c.head_width << " orders=" << c.orders << " map=" << static_cast<int>(c.feature_map)
        << " chunks of " << chunk_tokens << (type == DataType::kFloat32 ? " float32" : " bfloat16");
  }
}

TEST(CudaMixer, GivesTheGoldenAnswers) {
  for (testing::GoldenMixerCase& golden : testing::GoldenMixerCases()) {
    MixerCase& c = golden.mixer;
    if (!c.log_decay[0].empty()) {
      const int64_t rows = static_cast<int64_t>(c.log_decay[0].size()) / c.heads;
      ASSERT_TRUE(LogDecay({golden.decay, c.log_decay[0].data(), rows, c.heads, {}}, nullptr, nullptr).ok());
    }
    for (const DataType type : kTypes) EXPECT_TRUE(Near(RunMixer(c, type), golden.want, Bound(type))) << golden.name;
  }
}

constexpr Decay kDecays[] = {Decay::kNone, Decay::kConstant, Decay::kPerToken, Decay::kSaturated};

TEST(CudaMixer, ShortSequencesEqualTheReference) {
  std::mt19937 random(1);
  for (const Decay decay : kDecays) {
    for (const int orders : {1, 2}) {
      for (const FeatureMap map : {FeatureMap::kIdentity, FeatureMap::kEluPlusOne, FeatureMap::kNormalizedSilu}) {
        // Every width with every decay, order and map, though not with all of them together.
        const int64_t widths[] = {1, 33, 64};
        const int64_t width = widths[(static_cast<int>(decay) + orders + static_cast<int>(map)) % 3];
        const bool normalize = map != FeatureMap::kIdentity;
        ExpectReference(MakeMixerCase(random, {1, 2, 15, 63, 1, 64, 65, 130}, width, decay, orders, map, normalize),
                        128, "short");
      }
    }
  }
  ExpectReference(MakeMixerCase(random, {197, 256}, 64, Decay::kPerToken, 2, FeatureMap::kNormalizedSilu, true), 128,
                  "a window and less");
}

TEST(CudaMixer, LongSequencesEqualTheReference) {
  std::mt19937 random(2);
  for (const Decay decay : kDecays) {
    for (const int orders : {1, 2}) {
      const FeatureMap map = decay == Decay::kNone ? FeatureMap::kEluPlusOne : FeatureMap::kNormalizedSilu;
      const int64_t width = orders == 1 ? 64 : 12;
      const MixerCase c = MakeMixerCase(random, {257, 3, 500}, width, decay, orders, map, true);
      ExpectReference(c, 128, "long");
      // More chunks to a sequence, and a last chunk of one token.
      if (decay == Decay::kPerToken) ExpectReference(c, 64, "long");
      if (decay == Decay::kPerToken) ExpectReference(c, 256, "long");
    }
  }
}

TEST(CudaMixer, WideHeadsAndOrdersOfDifferentKindsEqualTheReference) {
  std::mt19937 random(3);
  for (const Decay decay : {Decay::kNone, Decay::kPerToken}) {
    MixerCase c =
        MakeMixerCase(random, {65, 300}, decay == Decay::kNone ? 128 : 80, decay, 2, FeatureMap::kNormalizedSilu, true);
    ExpectReference(c, 128, "wide");
    c.log_decay[1].clear();
    ExpectReference(c, 128, "wide, one order without decay");
  }
}

TEST(CudaMixer, ThousandsOfTokensEqualTheReference) {
  std::mt19937 random(4);
  for (const Decay decay : {Decay::kNone, Decay::kPerToken, Decay::kSaturated}) {
    const FeatureMap map = decay == Decay::kNone ? FeatureMap::kEluPlusOne : FeatureMap::kNormalizedSilu;
    MixerCase c = MakeMixerCase(random, {kLongest}, 16, decay, 1, map, true);
    // States that gather all of the tokens: these are the sums that could lose digits.
    if (decay == Decay::kPerToken) {
      for (float& value : c.log_decay[0]) value *= 1e-4f;
    }
    ExpectReference(c, 128, "thousands");
  }
}

TEST(CudaMixer, LargeInputsEqualTheReference) {
  std::mt19937 random(5);
  for (const FeatureMap map : {FeatureMap::kEluPlusOne, FeatureMap::kNormalizedSilu}) {
    for (const float spread : {60.0f, 3000.0f}) {
      MixerCase c = MakeMixerCase(random, {100}, 16, Decay::kPerToken, 1, map, true);
      for (float& value : c.qkv) value *= spread;
      ExpectReference(c, 128, "large");
    }
  }
}

TEST(CudaMixer, ASequenceDoesNotFeelItsBatch) {
  std::mt19937 random(6);
  for (const Decay decay : {Decay::kNone, Decay::kPerToken}) {
    const MixerCase batch =
        MakeMixerCase(random, {130, 1, 577, 256, 300}, 64, decay, 2, FeatureMap::kNormalizedSilu, true);
    const std::vector<float> together = RunMixer(batch, DataType::kBFloat16);
    const int64_t row = batch.heads * batch.head_width;
    for (size_t s = 0; s + 1 < batch.offsets.size(); ++s) {
      const std::vector<float> want(together.begin() + batch.offsets[s] * row,
                                    together.begin() + batch.offsets[s + 1] * row);
      EXPECT_EQ(RunMixer(testing::AloneInBatch(batch, s), DataType::kBFloat16), want) << "sequence " << s;
    }
  }
}

// A missing barrier would show.
TEST(CudaMixer, TheOrderOfThreadsIsNotFelt) {
  std::mt19937 random(7);
  for (const Decay decay : {Decay::kNone, Decay::kPerToken}) {
    for (const int64_t width : {64, 128}) {
      for (const DataType type : kTypes) {
        if (kLongest < 4097 && width == 128) continue;
        const MixerCase c = MakeMixerCase(random, {70, 300}, width, decay, 2, FeatureMap::kNormalizedSilu, true);
        const std::vector<float> want = RunMixer(c, type);
        for (const auto order : {emulation::RunOrder::kBackward, emulation::RunOrder::kShuffled}) {
          emulation::SetRunOrder(order);
          EXPECT_EQ(RunMixer(c, type), want);
        }
        emulation::SetRunOrder(emulation::RunOrder::kLockstep);
      }
    }
  }
}

// One faulty token reaches every token of its sequence that sees it, in q only its own.
TEST(CudaMixer, NaNSpreads) {
  std::mt19937 random(8);
  for (const int64_t length : {200, 400}) {
    for (const Decay decay : {Decay::kNone, Decay::kConstant, Decay::kPerToken}) {
      for (const int part : {0, 1, 2}) {
        MixerCase c = MakeMixerCase(random, {length, 90}, 64, decay, 2, FeatureMap::kNormalizedSilu, true);
        const int64_t row = c.heads * c.head_width, token = 130;
        c.qkv[(token * 3 + part) * row + 7] = std::bit_cast<float>(0xffffffffu);
        const std::vector<float> got = RunMixer(c, DataType::kBFloat16);
        for (int64_t t = 0; t < c.tokens(); ++t) {
          const bool want = part == 0 ? t == token : t < length;
          bool any = false;
          for (int64_t i = 0; i < c.head_width; ++i) any = any || std::isnan(got[t * row + i]);
          ASSERT_EQ(any, want) << "part " << part << " token " << t << " decay " << static_cast<int>(decay);
        }
      }
    }
    MixerCase c = MakeMixerCase(random, {length}, 16, Decay::kPerToken, 1, FeatureMap::kEluPlusOne, true);
    c.log_decay[0][30 * c.heads] = std::nanf("");
    EXPECT_TRUE(std::isnan(RunMixer(c, DataType::kFloat32)[0]));
  }
}

TEST(CudaMixer, LogDecayIsExactAtSaturatedLogits) {
  const std::vector<float> logits = {-100, -30, -17, -5, -1, -1e-3f, 0, 1e-3f, 1, 5, 17, 30, 88, 100, 1000, -1000};
  const Operations& reference = ReferenceOperations();
  const auto context = testing::MakeContext(reference, 1);
  for (const DecayKind kind : {DecayKind::kSelectiveVision, DecayKind::kSelectiveText, DecayKind::kLearned}) {
    std::vector<float> got = logits, want = logits;
    const int64_t rows = static_cast<int64_t>(logits.size());
    ASSERT_TRUE(LogDecay({kind, got.data(), rows, 1, {}}, nullptr, nullptr).ok());
    ASSERT_TRUE(reference.log_decay(*context, {kind, want.data(), rows, 1, {}}).ok());
    for (size_t i = 0; i < logits.size(); ++i) {
      EXPECT_NEAR(got[i], want[i], 1e-12 + 1e-6 * std::abs(want[i])) << "logit " << logits[i];
    }
  }
}

TEST(CudaMixer, ClassTokensDoNotDecay) {
  std::vector<float> values(300 * 2, 1.0f);
  const std::vector<int64_t> offsets = {0, 2, 5, 6, 300};
  ASSERT_TRUE(LogDecay({DecayKind::kSelectiveVision, values.data(), 300, 2, offsets}, offsets.data(), nullptr).ok());
  for (int token = 0; token < 300; ++token) {
    const bool first = token == 0 || token == 2 || token == 5 || token == 6;
    EXPECT_NEAR(values[token * 2], first ? 0.0f : -1.3132617f, 1e-6) << token;
    EXPECT_NEAR(values[token * 2 + 1], first ? 0.0f : -1.3132617f, 1e-6) << token;
  }
}

}  // namespace
}  // namespace lion::cuda
