// ModelStreamInfer.
#include <atomic>
#include <memory>
#include <string>

#include "tests/server/inference/infer_fixture.h"

namespace lion {
namespace {

using ::testing::HasSubstr;

class InferStreamTest : public InferTest {
 protected:
  static inference::ModelInferRequest Numbered(const std::string& id, inference::ModelInferRequest request) {
    request.set_id(id);
    return request;
  }
  void Open() { stream_ = protocol_->ModelStreamInfer(&context_); }
  inference::ModelStreamInferResponse Read() {
    inference::ModelStreamInferResponse response;
    EXPECT_TRUE(stream_->Read(&response));
    return response;
  }

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<inference::ModelInferRequest, inference::ModelStreamInferResponse>> stream_;
};

TEST_F(InferStreamTest, ResponsesComeInTheOrderOfTheRequests) {
  ServeOne();
  std::atomic<int> held = 0;
  std::atomic<bool> released = false;
  const auto wait = [&](const absl::Status&) {
    ++held;
    while (!released) std::this_thread::yield();
    --held;
  };
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(decode_pool_.Submit({{.work = 1, .run = wait}}, 0).ok());
  while (held < 2) std::this_thread::yield();
  Open();
  inference::ModelInferRequest photo;
  testing::AddRaw("image", "BYTES", {1},
                  testing::RawBytes({testing::ReadFile(testing::SourcePath("tests/golden/images/landscape.jpg"))}),
                  &photo);
  ASSERT_TRUE(stream_->Write(Numbered("photo", photo)));
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(stream_->Write(Numbered(absl::StrCat(i), PixelsRequest({static_cast<float>(i)}))));
  }
  while (engines_[0]->inputs() < 5) std::this_thread::yield();
  released = true;
  while (held > 0) std::this_thread::yield();
  EXPECT_EQ(Read().infer_response().id(), "photo");
  for (int i = 0; i < 5; ++i) {
    const inference::ModelStreamInferResponse response = Read();
    EXPECT_EQ(response.infer_response().id(), absl::StrCat(i));
    EXPECT_EQ(testing::ValuesOf<float>("embeddings", response.infer_response())[0], i);
  }
  stream_->WritesDone();
  inference::ModelStreamInferResponse none;
  EXPECT_FALSE(stream_->Read(&none));
  EXPECT_TRUE(stream_->Finish().ok());
}

TEST_F(InferStreamTest, ABadRequestFailsItselfAlone) {
  ServeOne();
  Open();
  ASSERT_TRUE(stream_->Write(Numbered("bad", {})));
  ASSERT_TRUE(stream_->Write(Numbered("good", PixelsRequest({3}))));
  const inference::ModelStreamInferResponse bad = Read();
  EXPECT_THAT(bad.error_message(), HasSubstr("got no inputs"));
  EXPECT_EQ(bad.infer_response().id(), "bad");
  EXPECT_EQ(bad.infer_response().model_name(), "puppet");
  const inference::ModelStreamInferResponse good = Read();
  EXPECT_EQ(good.error_message(), "");
  EXPECT_EQ(good.infer_response().id(), "good");
  stream_->WritesDone();
  EXPECT_TRUE(stream_->Finish().ok());
}

TEST_F(InferStreamTest, DrainingAnswersWhatWasRead) {
  PuppetEngine* const engine = ServeOne();
  engine->Hold();
  Open();
  ASSERT_TRUE(stream_->Write(Numbered("a", PixelsRequest({1}))));
  engine->AwaitEntered(1);
  server_->DrainStreams();
  engine->Release();
  EXPECT_EQ(Read().infer_response().id(), "a");
  EXPECT_EQ(stream_->Finish().error_code(), grpc::UNAVAILABLE);
}

}  // namespace
}  // namespace lion
