// What the protocol's calls besides inference say.
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "server/model_control.h"
#include "tests/server/inference/infer_fixture.h"

namespace lion {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class InferServiceTest : public InferTest {
 protected:
  using Stub = inference::GRPCInferenceService::Stub;
  template <class Response, class Request>
  Response Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*), const Request& request,
                grpc::Status* status = nullptr) {
    grpc::ClientContext context;
    Response response;
    const grpc::Status result = (protocol_.get()->*method)(&context, request, &response);
    if (status != nullptr) *status = result;
    EXPECT_TRUE(status != nullptr || result.ok()) << result.error_message();
    return response;
  }
  template <class Request>
  static Request Named(const std::string& name, const std::string& version = "") {
    Request request;
    request.set_name(name);
    request.set_version(version);
    return request;
  }
  bool Ready() { return Call(&Stub::ServerReady, inference::ServerReadyRequest()).ready(); }
  bool Ready(const std::string& model, const std::string& version = "") {
    return Call(&Stub::ModelReady, Named<inference::ModelReadyRequest>(model, version)).ready();
  }
  inference::ModelStatistics Statistics() {
    return Call(&Stub::ModelStatistics, Named<inference::ModelStatisticsRequest>("puppet")).model_stats(0);
  }
};

TEST_F(InferServiceTest, ReadinessIsWhatHealthSays) {
  AddModel("puppet");
  EXPECT_TRUE(Call(&Stub::ServerLive, inference::ServerLiveRequest()).live());
  EXPECT_FALSE(Ready());
  EXPECT_FALSE(Ready("puppet"));
  Serve();
  EXPECT_TRUE(Ready());
  EXPECT_TRUE(Ready("puppet"));
  EXPECT_TRUE(Ready("puppet", "1"));
  EXPECT_FALSE(Ready("puppet", "2"));
  EXPECT_FALSE(Ready("nope")) << "no error";
  EXPECT_EQ(Health("inference.GRPCInferenceService"), grpc::health::v1::HealthCheckResponse::SERVING);
  server_->SetFailed({"", "puppet"});
  EXPECT_FALSE(Ready());
  EXPECT_FALSE(Ready("puppet"));
  EXPECT_TRUE(Call(&Stub::ServerLive, inference::ServerLiveRequest()).live());
}

TEST_F(InferServiceTest, DrainingIsNotReady) {
  ServeOne();
  server_->StopServing();
  EXPECT_FALSE(Ready());
  EXPECT_FALSE(Ready("puppet"));
}

TEST_F(InferServiceTest, ConfigurationAndMetadataAgree) {
  AddModel("images");
  AddModel("texts", {}, PuppetEngine::OfText());
  Serve();
  for (const char* const name : {"images", "texts"}) {
    const auto metadata = Call(&Stub::ModelMetadata, Named<inference::ModelMetadataRequest>(name));
    const auto config = Call(&Stub::ModelConfig, Named<inference::ModelConfigRequest>(name)).config();
    EXPECT_EQ(metadata.name(), name);
    EXPECT_THAT(metadata.versions(), ElementsAre("1")) << "an integer: clients parse it";
    EXPECT_EQ(config.max_batch_size(), 1024);
    EXPECT_TRUE(config.has_dynamic_batching());
    ASSERT_EQ(metadata.inputs_size(), config.input_size());
    ASSERT_EQ(metadata.outputs_size(), config.output_size());
    for (int i = 0; i < config.input_size(); ++i) {
      EXPECT_EQ(metadata.inputs(i).name(), config.input(i).name());
      std::vector<int64_t> shape = {-1};
      shape.insert(shape.end(), config.input(i).dims().begin(), config.input(i).dims().end());
      EXPECT_THAT(metadata.inputs(i).shape(), ::testing::ElementsAreArray(shape));
      EXPECT_EQ(config.input(i).data_type() == inference::TYPE_STRING, metadata.inputs(i).datatype() == "BYTES");
    }
    for (int i = 0; i < config.output_size(); ++i) EXPECT_EQ(metadata.outputs(i).name(), config.output(i).name());
  }
  grpc::Status status;
  Call(&Stub::ModelMetadata, Named<inference::ModelMetadataRequest>("nope"), &status);
  EXPECT_EQ(status.error_code(), grpc::NOT_FOUND);
  Call(&Stub::ModelConfig, Named<inference::ModelConfigRequest>("texts", "7"), &status);
  EXPECT_EQ(status.error_code(), grpc::NOT_FOUND);
}

TEST_F(InferServiceTest, StatisticsAddUp) {
  ServeTexts();
  EXPECT_EQ(Statistics().inference_stats().queue().count(), 0u);
  for (int i = 0; i < 10; ++i) MustInfer(testing::TextsRequest({"the lion", "lion"}));
  EXPECT_TRUE(Embed(TokensOf({1})).status.ok()) << "the calls of all APIs count";
  EXPECT_EQ(Tokenize(TextsOf<v1::TokenizeRequest>({"a"})).status.error_code(), grpc::OK) << "computes nothing";
  EXPECT_EQ(Embed(TokensOf({PuppetEngine::kNotFiniteId})).status.error_code(), grpc::INTERNAL);
  const inference::ModelStatistics all = Statistics();
  const inference::InferStatistics& stats = all.inference_stats();
  EXPECT_EQ(all.version(), "1");
  EXPECT_EQ(all.inference_count(), 22u);
  EXPECT_EQ(stats.success().count(), 11u);
  EXPECT_EQ(stats.fail().count(), 1u);
  EXPECT_EQ(stats.queue().count(), 11u);
  EXPECT_GT(stats.compute_input().ns(), 0u);
  EXPECT_GT(stats.compute_infer().ns(), 0u);
  EXPECT_GT(stats.compute_output().ns(), 0u);
  EXPECT_LE(stats.queue().ns() + stats.compute_input().ns() + stats.compute_infer().ns() + stats.compute_output().ns(),
            stats.success().ns());
  EXPECT_GT(all.last_inference(), uint64_t{1'600'000'000'000}) << "milliseconds of this century";
  uint64_t batches = 0, inputs = 0;
  for (const inference::InferBatchStatistics& batch : all.batch_stats()) {
    batches += batch.compute_infer().count();
    inputs += batch.compute_infer().count() * batch.batch_size();
  }
  EXPECT_EQ(batches, all.execution_count());
  EXPECT_EQ(inputs, all.inference_count());
  EXPECT_EQ(Call(&Stub::ModelStatistics, inference::ModelStatisticsRequest()).model_stats_size(), 1) << "of all models";
}

TEST_F(InferServiceTest, WhatIsNotOfferedSaysSo) {
  ServeOne();
  grpc::Status status;
  Call(&Stub::SystemSharedMemoryStatus, inference::SystemSharedMemoryStatusRequest(), &status);
  EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(), HasSubstr("shared memory is not offered"));
  Call(&Stub::CudaSharedMemoryRegister, inference::CudaSharedMemoryRegisterRequest(), &status);
  EXPECT_THAT(status.error_message(), HasSubstr("shared memory is not offered"));
  Call(&Stub::LogSettings, inference::LogSettingsRequest(), &status);
  EXPECT_THAT(status.error_message(), HasSubstr("traces and logs are not offered"));
  const auto metadata = Call(&Stub::ServerMetadata, inference::ServerMetadataRequest());
  EXPECT_THAT(metadata.extensions(), Contains("statistics"));
  EXPECT_THAT(metadata.extensions(), Not(Contains(HasSubstr("shared_memory"))));
  EXPECT_THAT(metadata.extensions(), Not(Contains("model_repository"))) << "callers may not change it";
  Call(&Stub::RepositoryModelLoad, inference::RepositoryModelLoadRequest(), &status);
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("--allow-model-control"));
  Call(&Stub::RepositoryIndex, inference::RepositoryIndexRequest(), &status);
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE) << "no control yet";
}

class InferRepositoryTest : public InferServiceTest {
 protected:
  void SetUp() override {
    Start({.allow_model_control = true});
    protocol_ = inference::GRPCInferenceService::NewStub(channel_);
    AddModel("puppet");
    ModelControlActions actions;
    actions.load = [this](const ModelControlActions::Load& load) -> absl::StatusOr<std::unique_ptr<ModelService>> {
      while (held_) std::this_thread::yield();
      if (broken_) return absl::InvalidArgumentError("the file is broken");
      AddModel(load.spec.name);
      std::unique_ptr<ModelService> model = std::move(models_.back());
      models_.pop_back();
      return model;
    };
    actions.put = [this](std::unique_ptr<ModelService> model) {
      server_->SetServing({model->info().name}, true);
      return registry_.Put(std::move(model));
    };
    actions.remove = [this](const std::string& name) {
      server_->SetServing({name}, false);
      registry_.Remove(name);
    };
    control_ = std::make_unique<ModelControl>(
        ModelControlOptions{.models = {{"puppet", testing::SourcePath("models")}}}, actions, &clock_, &all_metrics_);
    ASSERT_TRUE(control_->Begin().ok());
    Serve();
    control_->Run();
    server_->SetModelControl(control_.get());
  }
  void TearDown() override {
    held_ = false;
    control_->Stop();
    engines_.clear();  // some went with their models; none is held
    InferServiceTest::TearDown();
    control_.reset();
  }

  std::string Index(bool only_ready = false) {
    inference::RepositoryIndexRequest request;
    request.set_ready(only_ready);
    std::string text;
    const inference::RepositoryIndexResponse index = Call(&Stub::RepositoryIndex, request);
    for (const auto& model : index.models()) {
      absl::StrAppend(&text, model.name(), " ", model.version(), " ", model.state(), " ", model.reason(), ";");
    }
    return text;
  }
  static inference::RepositoryModelLoadRequest LoadOf(const std::string& name) {
    inference::RepositoryModelLoadRequest request;
    request.set_model_name(name);
    return request;
  }
  static inference::RepositoryModelUnloadRequest UnloadOf(const std::string& name) {
    inference::RepositoryModelUnloadRequest request;
    request.set_model_name(name);
    (*request.mutable_parameters())["unload_dependents"].set_bool_param(false);
    return request;
  }

  std::atomic<bool> held_ = false;
  std::atomic<bool> broken_ = false;
  Metrics all_metrics_{"1", "cpu"};
  std::unique_ptr<ModelControl> control_;
};

TEST_F(InferRepositoryTest, ModelsAreUnloadedAndLoaded) {
  EXPECT_THAT(Call(&Stub::ServerMetadata, inference::ServerMetadataRequest()).extensions(),
              Contains("model_repository"));
  EXPECT_EQ(Index(), "puppet 1 READY ;");
  Call(&Stub::RepositoryModelUnload, UnloadOf("puppet"));
  EXPECT_FALSE(Ready("puppet"));
  EXPECT_EQ(Index(), "puppet  UNAVAILABLE not loaded;");
  EXPECT_EQ(Index(/*only_ready=*/true), "");
  inference::ModelInferRequest request = PixelsRequest({1});
  request.set_model_name("puppet");
  ExpectError(request, grpc::NOT_FOUND, HasSubstr("no models"));
  inference::RepositoryModelLoadRequest of_kserve;  // which has the name in another field
  of_kserve.set_repository_name("puppet");
  Call(&Stub::RepositoryModelLoad, of_kserve);
  EXPECT_EQ(Index(), "puppet 2 READY ;");
  EXPECT_TRUE(Ready("puppet"));
  MustInfer(request);
}

TEST_F(InferRepositoryTest, WhyAModelIsNotLoaded) {
  grpc::Status status;
  Call(&Stub::RepositoryModelLoad, LoadOf("nope"), &status);
  EXPECT_EQ(status.error_code(), grpc::NOT_FOUND) << status.error_message();
  Call(&Stub::RepositoryModelUnload, UnloadOf("nope"), &status);
  EXPECT_EQ(status.error_code(), grpc::NOT_FOUND) << status.error_message();
  broken_ = true;
  Call(&Stub::RepositoryModelLoad, LoadOf("puppet"), &status);
  EXPECT_THAT(status.error_message(), HasSubstr("the file is broken"));
  EXPECT_EQ(Index(), "puppet 1 READY the file is broken;") << "the one before goes on serving";
  inference::RepositoryModelLoadRequest with_files = LoadOf("puppet");
  (*with_files.mutable_parameters())["file:1/model.onnx"].set_bytes_param("x");
  Call(&Stub::RepositoryModelLoad, with_files, &status);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("loaded from its folder"));
}

TEST_F(InferRepositoryTest, ACallerThatGoesAwayEndsItsCallAndNotTheLoad) {
  held_ = true;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(20));
  inference::RepositoryModelLoadResponse response;
  EXPECT_EQ(protocol_->RepositoryModelLoad(&context, LoadOf("puppet"), &response).error_code(),
            grpc::DEADLINE_EXCEEDED);
  held_ = false;
  while (Index() != "puppet 2 READY ;") std::this_thread::yield();
}

}  // namespace
}  // namespace lion
