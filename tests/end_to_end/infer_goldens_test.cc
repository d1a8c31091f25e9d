// The float64 goldens through ModelInfer: pixels, and token ids padded on the left and the right in one batch.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "inference/inference.grpc.pb.h"
#include "tests/end_to_end/goldens_fixture.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"
#include "tests/support/infer_request.h"

namespace lion {
namespace {

using GoldenCase = std::map<std::string, testing::GoldenTensor>;

class InferGoldensFixture : public testing::GoldensFixture {
 protected:
  using GoldensFixture::GoldensFixture;

  grpc::Status Infer(const inference::ModelInferRequest& request, inference::ModelInferResponse* response) {
    grpc::ClientContext context;
    return inference::GRPCInferenceService::NewStub(channel_)->ModelInfer(&context, request, response);
  }
  // `output` of input `index` against the golden `name`.
  void Expect(const inference::ModelInferResponse& response, const std::string& output, int index,
              const testing::GoldenTensor& golden) const {
    const std::vector<float> all = testing::ValuesOf<float>(output, response);
    const size_t size = all.size() / static_cast<size_t>(testing::ShapeOf(output, response)[0]);
    const auto begin = all.begin() + static_cast<int64_t>(static_cast<size_t>(index) * size);
    const std::vector<float> got(begin, begin + static_cast<int64_t>(size));
    EXPECT_TRUE(testing::Near(got, golden.values, GetParam().second)) << output << " of input " << index;
  }
};

class InferVisionGoldensTest : public InferGoldensFixture {
 protected:
  InferVisionGoldensTest() : InferGoldensFixture("tests/golden/vision") {}
};

TEST_P(InferVisionGoldensTest, EveryCaseIsReproducedFromPixels) {
  for (const std::string& name : Cases()) {
    SCOPED_TRACE(name);
    const GoldenCase golden = Golden(name);
    ASSERT_EQ(golden.count("image.0"), 1u);
    for (int i = 0; golden.count(absl::StrCat("image.", i)) > 0; ++i) {
      const testing::GoldenTensor& image = golden.at(absl::StrCat("image.", i));
      inference::ModelInferRequest request;
      request.set_model_name(name);
      testing::AddRaw("pixels", "FP32", {1, 3, image.shape[1], image.shape[2]},
                      testing::Raw(std::vector<float>(image.values.begin(), image.values.end())), &request);
      inference::ModelInferResponse response;
      grpc::Status status = Infer(request, &response);
      ASSERT_TRUE(status.ok()) << status.error_message();
      Expect(response, "embeddings", 0, golden.at(absl::StrCat("embedding.", i)));
      if (const auto logits = golden.find(absl::StrCat("logits.", i)); logits != golden.end()) {
        Expect(response, "logits", 0, logits->second);
      }
      (*request.mutable_parameters())["pooling"].set_string_param("none");
      status = Infer(request, &response);
      ASSERT_TRUE(status.ok()) << status.error_message();
      Expect(response, "embeddings", 0, golden.at(absl::StrCat("tokens.", i)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, InferVisionGoldensTest,
                         ::testing::Values(std::pair("float32", 2e-5), std::pair("bfloat16", 2e-2)), testing::CaseName);

class InferTextGoldensTest : public InferGoldensFixture {
 protected:
  InferTextGoldensTest() : InferGoldensFixture("tests/golden/text") {}

  // All inputs of the case in one batch: every other one is padded on the left.
  static inference::ModelInferRequest PaddedIds(const GoldenCase& golden) {
    int64_t batch = 0, length = 0;
    for (; golden.count(absl::StrCat("input_ids.", batch)) > 0; ++batch) {
      length = std::max<int64_t>(length, golden.at(absl::StrCat("input_ids.", batch)).values.size());
    }
    ++length;
    std::vector<int64_t> ids(static_cast<size_t>(batch * length), 0), mask = ids, types = ids;
    for (int64_t i = 0; i < batch; ++i) {
      const std::vector<double>& row = golden.at(absl::StrCat("input_ids.", i)).values;
      const std::vector<double>& types_row = golden.at(absl::StrCat("token_type_ids.", i)).values;
      const auto begin = static_cast<size_t>(i * length) + (i % 2 == 0 ? 0 : static_cast<size_t>(length) - row.size());
      for (size_t place = 0; place < row.size(); ++place) {
        ids[begin + place] = static_cast<int64_t>(row[place]);
        types[begin + place] = static_cast<int64_t>(types_row[place]);
        mask[begin + place] = 1;
      }
    }
    inference::ModelInferRequest request;
    testing::AddRaw("input_ids", "INT64", {batch, length}, testing::Raw(ids), &request);
    testing::AddRaw("attention_mask", "INT64", {batch, length}, testing::Raw(mask), &request);
    testing::AddRaw("token_type_ids", "INT64", {batch, length}, testing::Raw(types), &request);
    return request;
  }
};

TEST_P(InferTextGoldensTest, EveryCaseIsReproducedFromPaddedIds) {
  for (const std::string& name : Cases()) {
    SCOPED_TRACE(name);
    const GoldenCase golden = Golden(name);
    inference::ModelInferRequest request = PaddedIds(golden);
    request.set_model_name(name);
    (*request.mutable_parameters())["normalize"].set_bool_param(false);
    for (const char* const pooling : {"mean", "cls", "pooler"}) {
      (*request.mutable_parameters())["pooling"].set_string_param(pooling);
      inference::ModelInferResponse response;
      const grpc::Status status = Infer(request, &response);
      if (golden.count(absl::StrCat(pooling, ".0")) == 0) {
        EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << pooling << ": " << status.error_message();
        continue;
      }
      ASSERT_TRUE(status.ok()) << pooling << ": " << status.error_message();
      for (int i = 0; golden.count(absl::StrCat(pooling, ".", i)) > 0; ++i) {
        Expect(response, "embeddings", i, golden.at(absl::StrCat(pooling, ".", i)));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, InferTextGoldensTest,
                         ::testing::Values(std::pair("float32", 2e-5), std::pair("bfloat16", 5e-2)), testing::CaseName);

}  // namespace
}  // namespace lion
