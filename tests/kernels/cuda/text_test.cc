// The GPU's token embedding, on the host, against the float64 reference.

#include "kernels/cuda/text.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/operations.h"
#include "tests/kernels/test_kernels.h"
#include "tests/support/compare.h"

namespace lion::cuda {
namespace {

using ::lion::testing::Buffer;
using ::lion::testing::Near;
using ::lion::testing::Normal;

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBFloat16};

TEST(CudaEmbedTokens, EqualsTheReference) {
  std::mt19937 random(1);
  const std::vector<int64_t> offsets = testing::Offsets({1, 5, 17, 1});
  const int64_t tokens = offsets.back();
  for (const int64_t width : {3, 64, 768, 1536}) {
    const std::vector<float> words = Normal(random, 50 * width), types = Normal(random, 2 * width);
    const std::vector<float> positions = Normal(random, 20 * width), gamma = Normal(random, width),
                             beta = Normal(random, width);
    std::vector<int32_t> ids(tokens), type_ids(tokens);
    for (int64_t i = 0; i < tokens; ++i) {
      ids[i] = static_cast<int32_t>(random() % 50);
      type_ids[i] = static_cast<int32_t>(random() % 2);
    }
    for (const bool typed : {false, true}) {
      for (const bool placed : {false, true}) {
        const NormParameters norm{placed ? gamma.data() : nullptr, beta.data(), 1e-12f};
        std::vector<TokenSequence> sequences;
        for (size_t s = 0; s + 1 < offsets.size(); ++s) {
          sequences.push_back({ids.data() + offsets[s], typed ? type_ids.data() + offsets[s] : nullptr});
        }
        std::vector<float> want(tokens * width);
        const auto context = testing::MakeContext(ReferenceOperations(), 1);
        ASSERT_TRUE(ReferenceOperations()
                        .embed_tokens(*context, {sequences, offsets, words.data(), types.data(),
                                                 placed ? positions.data() : nullptr, width, norm, want.data()})
                        .ok());
        for (const DataType type : kTypes) {
          Buffer x(DataType::kFloat32, tokens * width), copy(type, tokens * width);
          const LaunchResult result = EmbedTokens({.ids = ids.data(),
                                                   .type_ids = typed ? type_ids.data() : nullptr,
                                                   .offsets = offsets.data(),
                                                   .sequences = static_cast<int64_t>(sequences.size()),
                                                   .tokens = tokens,
                                                   .words = words.data(),
                                                   .types = types.data(),
                                                   .positions = placed ? positions.data() : nullptr,
                                                   .width = width,
                                                   .norm = norm,
                                                   .type = type,
                                                   .x = x.floats(),
                                                   .copy = copy.data()},
                                                  nullptr);
          ASSERT_TRUE(result.ok()) << result.fault;
          EXPECT_TRUE(x.guards_intact() && copy.guards_intact());
          EXPECT_TRUE(Near(x.values(), want, 1e-6)) << width;
          EXPECT_EQ(copy.values(), Buffer::Of(type, x.values()).values());
        }
      }
    }
  }
}

}  // namespace
}  // namespace lion::cuda
