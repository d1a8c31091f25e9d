// Token ids through the whole chain, checkpoint file to gRPC reply, against the float64 goldens.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lion/v1/lion.grpc.pb.h"
#include "tests/client/temporary_folder.h"
#include "tests/end_to_end/goldens_fixture.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using GoldenCase = std::map<std::string, testing::GoldenTensor>;

std::span<const float> Values(const v1::EmbedResult& result) {
  const auto& values = result.embedding().values();
  return {values.data(), static_cast<size_t>(values.size())};
}

double Cosine(std::span<const float> a, std::span<const double> b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    ab += a[i] * b[i];
    aa += double{a[i]} * a[i];
    bb += b[i] * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

// The logarithms of the probabilities that the first `vocabulary` logits stand for.
std::vector<double> LogProbabilities(std::span<const double> logits, size_t vocabulary) {
  logits = logits.first(vocabulary);
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - highest);
  std::vector<double> logarithms;
  for (const double logit : logits) logarithms.push_back(logit - highest - std::log(sum));
  return logarithms;
}

class TextGoldensTest : public testing::GoldensFixture {
 protected:
  TextGoldensTest() : GoldensFixture("tests/golden/text") {}

  // The goldens hold no mask. Here their first token, [CLS], is one.
  std::string Prepare(const std::string& name) override {
    std::filesystem::copy(GoldensFixture::Prepare(name), folder_of_copies_.Path(name));
    folder_of_copies_.Write(name + "/tokenizer_config.json", R"({"mask_token": "[CLS]"})");
    return folder_of_copies_.Path(name);
  }

  template <class Request>
  static Request TokensOf(const std::string& model, const GoldenCase& golden) {
    Request request;
    request.set_model(model);
    for (int i = 0; golden.count(absl::StrCat("input_ids.", i)) > 0; ++i) {
      v1::TokenIds* tokens = request.add_inputs()->mutable_tokens();
      for (const double id : golden.at(absl::StrCat("input_ids.", i)).values) tokens->add_ids(static_cast<int64_t>(id));
      for (const double id : golden.at(absl::StrCat("token_type_ids.", i)).values) {
        tokens->add_type_ids(static_cast<int64_t>(id));
      }
    }
    return request;
  }

  void CheckPooling(const std::string& model, const GoldenCase& golden, v1::Pooling pooling,
                    const std::string& expected) {
    SCOPED_TRACE(expected);
    v1::EmbedRequest request = TokensOf<v1::EmbedRequest>(model, golden);
    request.set_pooling(pooling);
    request.set_normalize(false);
    grpc::ClientContext context;
    v1::EmbedResponse response;
    const grpc::Status status = stub_->Embed(&context, request, &response);
    if (golden.count(expected + ".0") == 0) {
      EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << status.error_message();
      return;
    }
    ASSERT_TRUE(status.ok()) << status.error_message();
    for (int i = 0; i < response.results_size(); ++i) {
      const std::vector<double>& want = golden.at(absl::StrCat(expected, ".", i)).values;
      EXPECT_TRUE(testing::Near(Values(response.results(i)), want, GetParam().second)) << i;
      const bool has_direction = pooling == v1::POOLING_MEAN || pooling == v1::POOLING_CLS;
      EXPECT_GE(has_direction ? Cosine(Values(response.results(i)), want) : 1, 0.999) << i;
    }
  }

  void CheckLogits(const std::string& model, const GoldenCase& golden) {
    v1::ClassifyRequest request = TokensOf<v1::ClassifyRequest>(model, golden);
    request.set_raw_scores(true);
    grpc::ClientContext context;
    v1::ClassifyResponse response;
    const grpc::Status status = stub_->Classify(&context, request, &response);
    if (golden.count("logits.0") == 0) {
      EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION) << status.error_message();
      return;
    }
    ASSERT_TRUE(status.ok()) << status.error_message();
    // In bfloat16 the logits of all inputs are one tensor: a single input's may cancel to almost nothing.
    const bool each_alone = GetParam().second < 1e-3;
    std::vector<float> all;
    std::vector<double> all_wanted;
    for (int i = 0; i < response.results_size(); ++i) {
      const auto& scores = response.results(i).classification().scores();
      const std::vector<double>& want = golden.at(absl::StrCat("logits.", i)).values;
      std::vector<float> logits(want.size(), std::nanf(""));
      for (const v1::ClassScore& score : scores) logits.at(score.index()) = score.score();
      if (each_alone) {
        EXPECT_TRUE(testing::Near(logits, want, GetParam().second)) << i;
      }
      all.insert(all.end(), logits.begin(), logits.end());
      all_wanted.insert(all_wanted.end(), want.begin(), want.end());
    }
    EXPECT_TRUE(testing::Near(all, all_wanted, GetParam().second));
  }

  void CheckMasks(const std::string& model, const GoldenCase& golden) {
    v1::FillMaskRequest request = TokensOf<v1::FillMaskRequest>(model, golden);
    request.set_top_k(1000);
    grpc::ClientContext context;
    v1::FillMaskResponse response;
    const grpc::Status status = stub_->FillMask(&context, request, &response);
    if (golden.count("mlm_logits.0") == 0) {
      EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION) << status.error_message();
      return;
    }
    ASSERT_TRUE(status.ok()) << status.error_message();
    const size_t vocabulary = model == "lion_s_padded_vocab_untied" ? 203 : 200;
    for (int i = 0; i < response.results_size(); ++i) {
      const v1::MaskPrediction& mask = response.results(i).filled().masks(0);
      EXPECT_EQ(mask.position(), 0u);
      ASSERT_EQ(static_cast<size_t>(mask.predictions_size()), vocabulary) << "all of them, none that is only padding";
      std::vector<float> logarithms(vocabulary, std::nanf(""));
      for (const v1::TokenPrediction& token : mask.predictions()) {
        logarithms.at(static_cast<size_t>(token.id())) = std::log(token.probability());
      }
      const testing::GoldenTensor& logits = golden.at(absl::StrCat("mlm_logits.", i));
      const auto row = std::span(logits.values).first(static_cast<size_t>(logits.shape[1]));
      EXPECT_TRUE(testing::Near(logarithms, LogProbabilities(row, vocabulary), GetParam().second)) << i;
    }
  }

  const testing::TemporaryFolder folder_of_copies_;
};

TEST_P(TextGoldensTest, EveryCaseIsReproduced) {
  for (const std::string& name : Cases()) {
    SCOPED_TRACE(name);
    const GoldenCase golden = Golden(name);
    ASSERT_EQ(golden.count("input_ids.0"), 1u);
    CheckPooling(name, golden, v1::POOLING_NONE, "tokens");
    CheckPooling(name, golden, v1::POOLING_MEAN, "mean");
    CheckPooling(name, golden, v1::POOLING_CLS, "cls");
    CheckPooling(name, golden, v1::POOLING_POOLER, "pooler");
    CheckLogits(name, golden);
    CheckMasks(name, golden);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, TextGoldensTest,
                         ::testing::Values(std::pair("float32", 2e-5), std::pair("bfloat16", 5e-2)), testing::CaseName);

}  // namespace
}  // namespace lion
