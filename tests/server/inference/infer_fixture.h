// The Open Inference Protocol on the server of RpcTest.
#pragma once

#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "inference/inference.grpc.pb.h"
#include "tests/server/rpc_fixture.h"
#include "tests/support/infer_request.h"

namespace lion {

class InferTest : public RpcTest {
 protected:
  void SetUp() override {
    RpcTest::SetUp();
    protocol_ = inference::GRPCInferenceService::NewStub(channel_);
  }

  struct Inferred {
    grpc::Status status;
    inference::ModelInferResponse response;
    std::map<std::string, std::string> trailers;
  };
  Inferred Infer(const inference::ModelInferRequest& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    Inferred answer;
    answer.status = protocol_->ModelInfer(&context, request, &answer.response);
    for (const auto& [key, value] : context.GetServerTrailingMetadata()) {
      answer.trailers[std::string(key.data(), key.size())] = std::string(value.data(), value.size());
    }
    return answer;
  }
  // Of a request that must succeed.
  inference::ModelInferResponse MustInfer(const inference::ModelInferRequest& request) {
    Inferred answer = Infer(request);
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    return std::move(answer.response);
  }
  void ExpectError(const inference::ModelInferRequest& request, grpc::StatusCode code,
                   const ::testing::Matcher<std::string>& message) {
    const grpc::Status status = Infer(request).status;
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), message);
  }
  void ExpectInvalid(const inference::ModelInferRequest& request, const ::testing::Matcher<std::string>& message) {
    ExpectError(request, grpc::INVALID_ARGUMENT, message);
  }

  // Images of one colour each, 16 x 16, as FP32.
  static inference::ModelInferRequest PixelsRequest(const std::vector<float>& images) {
    std::vector<float> values;
    for (const float value : images) values.insert(values.end(), 3 * 16 * 16, value);
    inference::ModelInferRequest request;
    testing::AddRaw("pixels", "FP32", {static_cast<int64_t>(images.size()), 3, 16, 16}, testing::Raw(values), &request);
    return request;
  }
  static inference::ModelInferRequest IdsRequest(const std::vector<int64_t>& shape, const std::vector<int64_t>& ids) {
    inference::ModelInferRequest request;
    testing::AddRaw("input_ids", "INT64", shape, testing::Raw(ids), &request);
    return request;
  }
  static void Want(const std::string& output, inference::ModelInferRequest* request) {
    request->add_outputs()->set_name(output);
  }

  std::unique_ptr<inference::GRPCInferenceService::Stub> protocol_;
};

}  // namespace lion
