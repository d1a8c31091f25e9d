// Which limit of a text's length counts.
#include <gtest/gtest.h>

#include "server/text_preparer.h"

namespace lion {
namespace {

class LimitedTokenizer : public Tokenizer {
 public:
  explicit LimitedTokenizer(int64_t max_tokens) : max_tokens_(max_tokens) {}
  absl::StatusOr<Encoding> Encode(std::string_view, std::optional<std::string_view>,
                                  const EncodeOptions&) const override {
    return absl::InternalError("encodes nothing");
  }
  absl::StatusOr<std::string> Decode(std::span<const uint32_t>, bool) const override {
    return absl::InternalError("decodes nothing");
  }
  std::string_view TokenText(int32_t) const override { return {}; }
  int64_t vocabulary() const override { return 0; }
  std::optional<int32_t> mask_id() const override { return std::nullopt; }
  int64_t max_tokens() const override { return max_tokens_; }

 private:
  const int64_t max_tokens_;
};

ModelConfig Config(int64_t max_positions, int64_t max_tokens) {
  ModelConfig config;
  config.modality = Modality::kText;
  config.max_positions = max_positions;
  config.max_tokens = max_tokens;
  return config;
}

TEST(TokenLimitTest, TheLowestLimitCountsAndIsNamed) {
  const auto limit = [](const ModelConfig& config, int64_t allowed) {
    return LimitOfTexts(config, nullptr, allowed, allowed);
  };
  EXPECT_EQ(limit(Config(0, 0), 4096).tokens, 4096);
  EXPECT_EQ(limit(Config(0, 0), 4096).source, "--max-input-tokens");
  EXPECT_EQ(limit(Config(512, 0), 4096).tokens, 512);
  EXPECT_EQ(limit(Config(512, 0), 4096).source, "the model's positions");
  EXPECT_EQ(limit(Config(512, 256), 4096).tokens, 256);
  EXPECT_EQ(limit(Config(512, 256), 4096).source, "the length the model was made for");
  EXPECT_EQ(limit(Config(512, 256), 128).source, "--max-input-tokens");
}

TEST(TokenLimitTest, TheTokenizersOwnLimitGivesWayToTheFlag) {
  const LimitedTokenizer tokenizer(512);
  EXPECT_EQ(LimitOfTexts(Config(0, 0), &tokenizer, /*asked_tokens=*/0, 131'072).tokens, 512);
  EXPECT_EQ(LimitOfTexts(Config(0, 0), &tokenizer, /*asked_tokens=*/8192, 8192).tokens, 8192);
  EXPECT_EQ(LimitOfTexts(Config(1024, 0), &tokenizer, /*asked_tokens=*/8192, 8192).tokens, 1024);
  const LimitedTokenizer unlimited(0);
  EXPECT_EQ(LimitOfTexts(Config(0, 0), &unlimited, /*asked_tokens=*/0, 131'072).tokens, 131'072);
}

}  // namespace
}  // namespace lion
