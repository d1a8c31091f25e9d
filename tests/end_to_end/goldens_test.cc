// The whole chain, checkpoint file to gRPC reply, against the float64 goldens.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lion/v1/lion.grpc.pb.h"
#include "tests/end_to_end/goldens_fixture.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

void SetPixels(const testing::GoldenTensor& image, v1::Input* input) {
  const std::vector<float> values(image.values.begin(), image.values.end());
  v1::PixelTensor* pixels = input->mutable_pixels();
  pixels->set_height(static_cast<uint32_t>(image.shape[1]));
  pixels->set_width(static_cast<uint32_t>(image.shape[2]));
  pixels->set_data(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

std::span<const float> Values(const v1::EmbedResult& result) {
  const auto& values = result.embedding().values();
  return {values.data(), static_cast<size_t>(values.size())};
}

class GoldensTest : public testing::GoldensFixture {
 protected:
  GoldensTest() : GoldensFixture("tests/golden/vision") {}
};

TEST_P(GoldensTest, EveryCaseIsReproduced) {
  const double tolerance = GetParam().second;
  for (const std::string& name : Cases()) {
    SCOPED_TRACE(name);
    std::map<std::string, testing::GoldenTensor> golden = Golden(name);
    v1::EmbedRequest embed;
    v1::ClassifyRequest classify;
    embed.set_model(name);
    classify.set_model(name);
    classify.set_raw_scores(true);
    int images = 0;
    for (; golden.count(absl::StrCat("image.", images)) > 0; ++images) {
      SetPixels(golden[absl::StrCat("image.", images)], embed.add_inputs());
      *classify.add_inputs() = embed.inputs(images);
    }
    ASSERT_GT(images, 0);

    grpc::ClientContext embed_context;
    v1::EmbedResponse embedded;
    grpc::Status status = stub_->Embed(&embed_context, embed, &embedded);
    ASSERT_TRUE(status.ok()) << status.error_message();
    embed.set_pooling(v1::POOLING_NONE);
    grpc::ClientContext tokens_context;
    v1::EmbedResponse tokens;
    status = stub_->Embed(&tokens_context, embed, &tokens);
    ASSERT_TRUE(status.ok()) << status.error_message();
    for (int i = 0; i < images; ++i) {
      EXPECT_TRUE(testing::Near(Values(embedded.results(i)), golden[absl::StrCat("embedding.", i)].values, tolerance));
      EXPECT_TRUE(testing::Near(Values(tokens.results(i)), golden[absl::StrCat("tokens.", i)].values, tolerance));
    }

    grpc::ClientContext classify_context;
    v1::ClassifyResponse classified;
    status = stub_->Classify(&classify_context, classify, &classified);
    if (golden.count("logits.0") == 0) {
      EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION) << status.error_message();
      continue;
    }
    ASSERT_TRUE(status.ok()) << status.error_message();
    for (int i = 0; i < images; ++i) {
      const auto& scores = classified.results(i).classification().scores();
      std::vector<float> logits(static_cast<size_t>(scores.size()));
      for (const v1::ClassScore& score : scores) logits.at(score.index()) = score.score();
      EXPECT_TRUE(testing::Near(logits, golden[absl::StrCat("logits.", i)].values, tolerance));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GoldensTest, ::testing::Values(std::pair("float32", 2e-5), std::pair("bfloat16", 2e-2)),
                         testing::CaseName);

}  // namespace
}  // namespace lion
