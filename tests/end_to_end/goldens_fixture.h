// One server with a model for each golden case of a folder.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lion/v1/lion.grpc.pb.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/golden.h"

namespace lion::testing {

// The parameter: a compute type and its tolerance.
class GoldensFixture : public ::testing::TestWithParam<std::pair<const char*, double>> {
 protected:
  // `folder`: of the source tree.
  explicit GoldensFixture(std::string folder) : folder_(std::move(folder)) {}

  void SetUp() override {
    std::vector<std::string> arguments = {"--host",         "127.0.0.1",      "--grpc-port",        "0",
                                          "--compute-type", GetParam().first, "--max-input-tokens", "2048"};
    for (const std::string& name : Cases()) {
      arguments.push_back("--model");
      arguments.push_back(absl::StrCat(name, "=", Prepare(name)));
    }
    server_ = std::make_unique<ServerProcess>(arguments);
    const int port = server_->AwaitServing();
    const std::string refusal = port == 0 ? server_->AwaitLog("cannot compute in bfloat16") : "";
    if (!refusal.empty()) {
      std::cout << "SKIPPED, MACHINE LACKS bfloat16: " << refusal << "\n";
      GTEST_SKIP() << "this processor has no bfloat16 products";
    }
    ASSERT_NE(port, 0) << server_->standard_error();
    channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials());
    stub_ = v1::LionService::NewStub(channel_);
  }

  std::vector<std::string> Cases() const {
    std::vector<std::string> cases;
    for (const auto& entry : std::filesystem::directory_iterator(SourcePath(folder_))) {
      cases.push_back(entry.path().filename().string());
    }
    return cases;
  }
  std::map<std::string, GoldenTensor> Golden(const std::string& name) const {
    return ReadGolden(folder_ + "/" + name + "/expected.safetensors");
  }
  // The path that the server gets.
  virtual std::string Prepare(const std::string& name) { return SourcePath(folder_ + "/" + name); }

  const std::string folder_;
  std::unique_ptr<ServerProcess> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::LionService::Stub> stub_;
};

inline std::string CaseName(const ::testing::TestParamInfo<std::pair<const char*, double>>& type) {
  return type.param.first;
}

}  // namespace lion::testing
