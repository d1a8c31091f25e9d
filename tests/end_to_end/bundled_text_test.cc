// The text model that ships, through the real server, against PyTorch (tools/lion_text.py, float32).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lion/client.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

TEST(BundledTextModel, TellsSentencesOfOneMeaningFromOthers) {
  testing::ServerProcess server({"--host", "127.0.0.1", "--grpc-port", "0", "--compute-type", "float32", "--model",
                                 testing::SourcePath("models/minilm-lion-s")});
  const int port = server.AwaitServing();
  ASSERT_NE(port, 0) << server.standard_error();
  const auto client = Client::Create({.address = absl::StrCat("127.0.0.1:", port)});
  ASSERT_TRUE(client.ok());
  v1::EmbedRequest request;
  for (const char* text : {"How do I reset my password?", "I cannot log in because I forgot my login details.",
                           "The cat sleeps on the warm windowsill.", "A kitten is taking a nap in the sun."}) {
    request.add_inputs()->set_text(text);
  }
  const absl::StatusOr<v1::EmbedResponse> response = (*client)->Embed(request);
  ASSERT_TRUE(response.ok()) << response.status();
  std::vector<std::vector<float>> vectors;
  for (const v1::EmbedResult& result : response->results()) {
    vectors.emplace_back(result.embedding().values().begin(), result.embedding().values().end());
    ASSERT_EQ(vectors.back().size(), 384u);
  }
  const double expected[4][4] = {{1, 0.4868, 0.0901, -0.0259},
                                 {0.4868, 1, 0.0647, -0.0342},
                                 {0.0901, 0.0647, 1, 0.4562},
                                 {-0.0259, -0.0342, 0.4562, 1}};
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) EXPECT_NEAR(Dot(vectors[i], vectors[j]), expected[i][j], 1e-4) << i << " " << j;
  }
}

}  // namespace
}  // namespace lion
