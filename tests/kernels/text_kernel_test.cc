// Token embedding and prediction against the float64 reference.

#include "kernels/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/kernels/test_kernels.h"
#include "tests/support/compare.h"

namespace lion {
namespace {

using testing::Buffer;
using testing::Near;

// Random ids for sequences of some lengths; every other one has type ids.
struct Texts {
  Texts(std::mt19937& random, std::initializer_list<int64_t> lengths, int32_t vocabulary, int32_t types)
      : offsets(testing::Offsets(lengths)) {
    for (int64_t i = 0; i < offsets.back(); ++i) {
      ids.push_back(static_cast<int32_t>(random() % vocabulary));
      type_ids.push_back(static_cast<int32_t>(random() % types));
    }
    for (size_t s = 0; s + 1 < offsets.size(); ++s) {
      sequences.push_back({ids.data() + offsets[s], s % 2 == 0 ? type_ids.data() + offsets[s] : nullptr});
    }
  }
  std::vector<int64_t> offsets;
  std::vector<int32_t> ids, type_ids;
  std::vector<TokenSequence> sequences;
};

struct Tables {
  Tables(std::mt19937& random, int64_t d)
      : width(d),
        words(testing::Normal(random, 50 * d)),
        types(testing::Normal(random, 3 * d)),
        positions(testing::Normal(random, 200 * d)),
        gamma(testing::Normal(random, d)),
        beta(testing::Normal(random, d)) {}
  EmbedTokensArgs Args(std::span<const TokenSequence> sequences, std::span<const int64_t> offsets,
                       bool with_positions) const {
    return {.sequences = sequences,
            .offsets = offsets,
            .words = words.data(),
            .types = types.data(),
            .positions = with_positions ? positions.data() : nullptr,
            .width = width,
            .norm = {gamma.data(), beta.data(), 1e-12f}};
  }
  int64_t width;
  std::vector<float> words, types, positions, gamma, beta;
};

std::vector<float> Embed(const Operations& kernels, int threads, EmbedTokensArgs args) {
  const auto context = testing::MakeContext(kernels, threads);
  Buffer x(DataType::kFloat32, args.offsets.back() * args.width);
  args.x = x.floats();
  EXPECT_TRUE(kernels.embed_tokens(*context, args).ok());
  EXPECT_TRUE(x.guards_intact());
  return x.values();
}

TEST(TextKernel, EmbeddingEqualsTheReference) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(1);
  for (const int64_t width : {1, 3, 16, 17, 48, 100}) {
    const Tables tables(random, width);
    // Lengths around the tiles of 64 rows, and sequences that begin at a tile's edge.
    const Texts texts(random, {1, 63, 64, 1, 2, 65, 197, 1}, 50, 3);
    for (const bool positions : {true, false}) {
      const EmbedTokensArgs args = tables.Args(texts.sequences, texts.offsets, positions);
      EXPECT_TRUE(Near(Embed(cpu, 2, args), Embed(ReferenceOperations(), 1, args), 1e-5)) << width;
    }
  }
}

TEST(TextKernel, EmbeddingDoesNotFeelTheBatch) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(2);
  const Tables tables(random, 20);
  const Texts texts(random, {70, 1, 130, 5}, 50, 3);
  const std::vector<float> together = Embed(cpu, 3, tables.Args(texts.sequences, texts.offsets, true));
  for (size_t s = 0; s < texts.sequences.size(); ++s) {
    const std::vector<int64_t> offsets = {0, texts.offsets[s + 1] - texts.offsets[s]};
    const std::vector<float> alone =
        Embed(cpu, 1, tables.Args(std::span(texts.sequences).subspan(s, 1), offsets, true));
    EXPECT_EQ(alone, std::vector<float>(together.begin() + texts.offsets[s] * 20,
                                        together.begin() + texts.offsets[s + 1] * 20));
  }
}

struct Predictions {
  std::vector<int32_t> ids;
  std::vector<float> logits, probabilities;
};

// W [vocabulary, D] with its bias, cut into parts of at most `part` entries.
struct Decoder {
  Decoder(const Operations& kernels, const std::vector<float>& w, const std::vector<float>& b, int64_t part,
          DataType type) {
    const int64_t vocabulary = static_cast<int64_t>(b.size()), width = static_cast<int64_t>(w.size()) / vocabulary;
    for (int64_t first = 0; first < vocabulary; first += part) {
      auto linear =
          kernels.pack_linear({&w[first * width], &b[first], width, std::min(part, vocabulary - first), type});
      if (linear.ok()) parts.push_back(*std::move(linear));
    }
  }
  std::vector<std::unique_ptr<PackedLinear>> parts;
};

Predictions Predict(const Operations& kernels, int threads, const Decoder& decoder, const std::vector<float>& x,
                    int64_t count) {
  const auto context = testing::MakeContext(kernels, threads);
  const int64_t rows = static_cast<int64_t>(x.size()) / decoder.parts[0]->inputs();
  std::vector<int32_t> ids(rows * count + 2, -7);
  Buffer logits(DataType::kFloat32, rows * count), probabilities(DataType::kFloat32, rows * count);
  EXPECT_TRUE(kernels
                  .predict_tokens(*context, {.x = x.data(),
                                             .rows = rows,
                                             .decoder = decoder.parts,
                                             .count = count,
                                             .ids = ids.data() + 1,
                                             .logits = logits.floats(),
                                             .probabilities = probabilities.floats()})
                  .ok());
  EXPECT_TRUE(logits.guards_intact() && probabilities.guards_intact() && ids.front() == -7 && ids.back() == -7);
  return {{ids.begin() + 1, ids.end() - 1}, logits.values(), probabilities.values()};
}

// The values of each row by id instead of rank.
std::vector<float> ById(const Predictions& predictions, const std::vector<float>& values, int64_t vocabulary) {
  std::vector<float> result(values.size(), std::nanf(""));
  for (size_t i = 0; i < values.size(); ++i) {
    result[static_cast<int64_t>(i) / vocabulary * vocabulary + predictions.ids[i]] = values[i];
  }
  return result;
}

TEST(TextKernel, PredictionsOfTheWholeVocabularyEqualTheReference) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(3);
  for (const auto& [rows, width, vocabulary, part] : {std::array<int64_t, 4>{1, 48, 203, 64},
                                                      {65, 17, 100, 100},
                                                      {130, 16, 33, 32},
                                                      {2, 3, 1, 1},
                                                      {64, 40, 200, 7}}) {
    const std::vector<float> w = testing::Normal(random, vocabulary * width, 0.3f);
    const std::vector<float> b = testing::Normal(random, vocabulary), x = testing::Normal(random, rows * width);
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
      const Decoder cut(cpu, w, b, part, type), whole(ReferenceOperations(), w, b, vocabulary, type);
      if (cut.parts.empty()) continue;  // not every machine has bfloat16
      const Predictions got = Predict(cpu, 2, cut, x, vocabulary);
      const Predictions want = Predict(ReferenceOperations(), 1, whole, x, vocabulary);
      EXPECT_TRUE(Near(ById(got, got.logits, vocabulary), ById(want, want.logits, vocabulary), 1e-6)) << rows;
      EXPECT_TRUE(Near(ById(got, got.probabilities, vocabulary), ById(want, want.probabilities, vocabulary), 1e-5))
          << rows;
      for (int64_t i = 0; i + 1 < rows * vocabulary; ++i) {
        ASSERT_TRUE((i + 1) % vocabulary == 0 || got.logits[i] >= got.logits[i + 1]);
      }
    }
  }
}

TEST(TextKernel, FewPredictionsAreTheFirstOfMany) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(4);
  const int64_t vocabulary = 150, width = 24, rows = 70;
  const std::vector<float> w = testing::Normal(random, vocabulary * width), b(vocabulary, 0.0f);
  const std::vector<float> x = testing::Normal(random, rows * width);
  for (const Operations* kernels : {&cpu, &ReferenceOperations()}) {
    const Decoder decoder(*kernels, w, b, 40, DataType::kFloat32);
    const Predictions all = Predict(*kernels, 2, decoder, x, vocabulary);
    for (const int64_t count : {1, 5, 149}) {
      const Predictions few = Predict(*kernels, 2, decoder, x, count);
      for (int64_t i = 0; i < rows * count; ++i) {
        const int64_t place = i / count * vocabulary + i % count;
        ASSERT_EQ(few.ids[i], all.ids[place]);
        ASSERT_EQ(few.logits[i], all.logits[place]);
        ASSERT_EQ(few.probabilities[i], all.probabilities[place]);
      }
    }
  }
}

TEST(TextKernel, EqualLogitsComeByRisingId) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  const std::vector<float> w(40 * 8, 0.0f), x(8, 1.0f);
  std::vector<float> b(40, 1.0f);
  b[17] = 2;
  for (const Operations* kernels : {&cpu, &ReferenceOperations()}) {
    const Predictions got = Predict(*kernels, 1, Decoder(*kernels, w, b, 16, DataType::kFloat32), x, 40);
    EXPECT_EQ(got.ids[0], 17);
    for (int32_t i = 1; i < 40; ++i) EXPECT_EQ(got.ids[i], i <= 17 ? i - 1 : i) << kernels->name;
    EXPECT_NEAR(std::accumulate(got.probabilities.begin(), got.probabilities.end(), 0.0), 1, 1e-6);
  }
}

TEST(TextKernel, ARowThatIsNotFiniteIsNaNAndTheOthersAreUntouched) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  std::mt19937 random(5);
  const int64_t vocabulary = 90, width = 16;
  const std::vector<float> w = testing::Normal(random, vocabulary * width), b(vocabulary, 0.0f);
  const std::vector<float> x = testing::Normal(random, 3 * width);
  for (const Operations* kernels : {&cpu, &ReferenceOperations()}) {
    const Decoder decoder(*kernels, w, b, 32, DataType::kFloat32);
    const Predictions good = Predict(*kernels, 2, decoder, x, 4);
    for (const float fault : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> poisoned = x;
      poisoned[width + 3] = fault;
      const Predictions got = Predict(*kernels, 2, decoder, poisoned, 4);
      for (int64_t i = 0; i < 12; ++i) {
        if (i / 4 == 1) {
          EXPECT_TRUE(std::isnan(got.logits[i]) && std::isnan(got.probabilities[i])) << kernels->name;
          EXPECT_TRUE(got.ids[i] >= 0 && got.ids[i] < vocabulary);
        } else {
          EXPECT_EQ(got.ids[i], good.ids[i]);
          EXPECT_EQ(got.logits[i], good.logits[i]);
          EXPECT_EQ(got.probabilities[i], good.probabilities[i]);
        }
      }
    }
  }
}

TEST(TextKernel, HugeLogitsDoNotOverflowTheSoftmax) {
  LION_CPU_KERNELS_OR_SKIP(cpu);
  const std::vector<float> w(20 * 4, 0.0f), x(4, 1.0f);
  std::vector<float> b(20, -1e30f);
  b[3] = b[5] = 1e30f;
  for (const Operations* kernels : {&cpu, &ReferenceOperations()}) {
    const Predictions got = Predict(*kernels, 1, Decoder(*kernels, w, b, 20, DataType::kFloat32), x, 3);
    EXPECT_EQ(got.ids, (std::vector<int32_t>{3, 5, 0}));
    EXPECT_EQ(got.probabilities, (std::vector<float>{0.5f, 0.5f, 0.0f})) << kernels->name;
  }
}

}  // namespace
}  // namespace lion
