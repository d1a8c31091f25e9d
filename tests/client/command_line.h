// The built `lion` program, run against a fake server.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/client/fake_server.h"
#include "tests/client/temporary_folder.h"
#include "tests/support/golden.h"

namespace lion::testing {

struct Outcome {
  int exit_status = -1;
  std::string out;
  std::string err;
};

// An "image" holds its class, a digit; others are bad.
class CommandLineTest : public ::testing::Test {
 protected:
  CommandLineTest() {
    handlers_.classify = [this](grpc::ServerContext&, const v1::ClassifyRequest& request,
                                v1::ClassifyResponse& response) {
      ++calls_;
      last_classify_ = request;
      for (const v1::Input& input : request.inputs()) {
        auto* result = response.add_results();
        if (!IsGood(input.image())) {
          SetError(*result->mutable_error());
          continue;
        }
        result->set_tokens(50);
        auto* score = result->mutable_classification()->add_scores();
        score->set_index(input.image()[0] - '0');
        score->set_label(input.image());
        score->set_score(0.75f);
      }
      return grpc::Status::OK;
    };
    handlers_.embed = [this](grpc::ServerContext&, const v1::EmbedRequest& request, v1::EmbedResponse& response) {
      last_embed_ = request;
      for (const v1::Input& input : request.inputs()) {
        auto* result = response.add_results();
        if (!IsGood(input.image())) {
          SetError(*result->mutable_error());
          continue;
        }
        const float values[2] = {static_cast<float>(input.image()[0] - '0'), 1.0f};
        result->set_tokens(50);
        result->mutable_embedding()->set_rows(1);
        result->mutable_embedding()->set_dimensions(2);
        result->mutable_embedding()->set_data(values, sizeof(values));
      }
      return grpc::Status::OK;
    };
    handlers_.classify_stream = [this](grpc::ServerContext& context, ClassifyServerStream& stream) {
      ++streams_;
      return AnswerEach(context, stream, handlers_.classify);
    };
    handlers_.embed_stream = [this](grpc::ServerContext& context, EmbedServerStream& stream) {
      ++streams_;
      return AnswerEach(context, stream, handlers_.embed);
    };
    server_ = std::make_unique<FakeServer>(&handlers_);
  }

  static bool IsGood(const std::string& image) { return image.size() == 1 && image[0] >= '0' && image[0] <= '9'; }
  static void SetError(v1::Error& error) {
    error.set_code(3);
    error.set_message("no image");
  }

  // `arguments` go through a shell, in the temporary folder.
  Outcome Run(const std::string& arguments, const std::string& input = "") {
    const std::string stdin_path = folder_.Write("io/stdin", input);
    folder_.Write("io/stdout", "");
    const std::string command = absl::StrCat("cd '", folder_.Path(""), "' && ", limit_,
                                             " LION_SERVER=", server_ ? server_->address() : address_, " '",
                                             LION_BINARY, "' ", arguments, " <io/stdin >", output_, " 2>io/stderr");
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadFile(folder_.Path("io/stdout")),
            ReadFile(folder_.Path("io/stderr"))};
  }

  const TemporaryFolder folder_;
  std::string output_ = "io/stdout";
  std::string limit_;  // a shell command that ends in &&
  FakeHandlers handlers_;
  std::atomic<int> calls_ = 0;    // of classify, in streams and without
  std::atomic<int> streams_ = 0;  // of either kind
  v1::ClassifyRequest last_classify_;
  v1::EmbedRequest last_embed_;
  std::string address_;
  std::unique_ptr<FakeServer> server_;
};

}  // namespace lion::testing
