// What a text may cost, next to what it then has.
#include "server/text_preparer.h"

#include <gmock/gmock.h>

#include "tests/server/puppet_engine.h"
#include "tests/server/tokenizer/tokenizer_folder.h"

namespace lion {
namespace {

using ::testing::ElementsAre;
using testing::MakeTokenizer;

class TextPreparerTest : public ::testing::Test {
 protected:
  // Ids 5 and on: mask, a, ##mask. Uncased.
  void SetMask(const std::string& mask) {
    tokenizer_ = MakeTokenizer("mask\na\n##mask\n", R"({"mask_token": ")" + mask + "\"}");
    preparer_ = std::make_unique<TextPreparer>(engine_.get(), tokenizer_.get(), TokenLimit{100, "a limit"},
                                               /*max_text_bytes=*/1000, /*pool=*/nullptr);
    call_.predictions = 5;
  }
  int64_t MostMasks(std::string_view text) {
    PreparedInput prepared;
    return preparer_->Check(call_, Input(text), &prepared)->most_masks;
  }
  absl::StatusOr<PreparedInput> Prepare(std::string_view text) { return preparer_->Prepare(call_, Input(text)); }
  static InferenceInput Input(std::string_view text) {
    InferenceInput input;
    input.text = TextOrPair{.first = text, .second = std::nullopt};
    return input;
  }

  const std::unique_ptr<PuppetEngine> engine_ = PuppetEngine::OfText();
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<TextPreparer> preparer_;
  InferenceCall call_;
};

TEST_F(TextPreparerTest, AMaskTokenThatIsAWordIsCountedAsItIsWritten) {
  SetMask("mask");
  EXPECT_EQ(MostMasks("a mask, a mask"), 2);
  const auto prepared = Prepare("a mask a mask");
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_THAT(prepared->masked, ElementsAre(2, 4));
}

TEST_F(TextPreparerTest, WordsThatBecomeTheMaskTokenBesideThoseCountedAreRefused) {
  SetMask("mask");
  EXPECT_EQ(MostMasks("mask MASK Mask a"), 1);
  EXPECT_EQ(Prepare("mask MASK Mask a").status(),
            absl::InvalidArgumentError("the input has 3 mask tokens, but 'mask' stands in it 1 times: other words "
                                       "become the model's mask token too"));
  SetMask("##mask");
  EXPECT_EQ(MostMasks("amask"), 0);
  EXPECT_EQ(Prepare("amask").status().code(), absl::StatusCode::kInvalidArgument);
  SetMask("[UNK]");
  EXPECT_EQ(MostMasks("b b b"), 0);
  EXPECT_EQ(Prepare("b b b").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TextPreparerTest, AUsualMaskTokenIsNothingElse) {
  SetMask("[MASK]");
  EXPECT_EQ(MostMasks("[MASK] [mask] mask MASK b"), 1);
  const auto prepared = Prepare("[MASK] [mask] mask MASK b");
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_THAT(prepared->masked, ElementsAre(1));
}

TEST_F(TextPreparerTest, WithoutPredictionsWordsMayBecomeTheMaskToken) {
  SetMask("mask");
  call_.predictions = 0;
  EXPECT_TRUE(Prepare("MASK").ok());
}

}  // namespace
}  // namespace lion
