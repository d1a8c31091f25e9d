// Hot reloads of the real server under load: calls and streams without a pause, while the model's files are exchanged
// and reloaded. Every request is answered, and every answer is to the bit that of the old or of the new weights.
// LION_RELOADS (default 5) and LION_RELOAD_CLIENTS (4) change the size of the run: scripts/acceptance/reload.sh does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lion/client.h"
#include "lion/stream.h"
#include "tests/acceptance/environment.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/golden.h"
#include "tests/support/http_get.h"

namespace lion {
namespace {

namespace fs = std::filesystem;
using testing::FromEnvironment;
using ::testing::HasSubstr;
using testing::ServerProcess;

v1::EmbedRequest OneImage(const std::string& model = "") {
  v1::EmbedRequest request;
  request.set_model(model);
  request.set_packed_bytes(true);
  v1::PixelTensor& pixels = *request.add_inputs()->mutable_pixels();
  pixels.set_height(64);
  pixels.set_width(48);
  pixels.set_type(v1::PixelTensor::TYPE_UINT8);
  for (size_t i = 0; i < size_t{3} * 64 * 48; ++i) pixels.mutable_data()->push_back(static_cast<char>(i * 7 % 251));
  return request;
}

// A repository of one model, "m", whose files are those of one of two checkpoints of the same shape.
class ReloadTest : public ::testing::Test {
 protected:
  ReloadTest() : root_(fs::path(::testing::TempDir()) / ("reload_" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_ / "models");
    Copy("lit_normal", root_ / "0");
    Copy("decay_normal", root_ / "1");
    Place(0);
  }
  ~ReloadTest() override { fs::remove_all(root_); }

  static void Copy(const std::string& golden, const fs::path& to) {
    fs::create_directories(to);
    const fs::path from = testing::SourcePath("tests/golden/vision/" + golden);
    for (const char* name : {"checkpoint.pth", "config.json"}) {
      if (fs::exists(from / name)) fs::copy_file(from / name, to / name);
    }
  }
  // Makes "m" a model of these weights, in one step.
  void Place(int weights) {
    const fs::path link = root_ / "next";
    fs::create_directory_symlink(root_ / std::to_string(weights), link);
    fs::rename(link, root_ / "models" / "m");
  }
  void Start(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"--host",
                                          "127.0.0.1",
                                          "--grpc-port",
                                          "0",
                                          "--max-input-tokens",
                                          "4096",
                                          "--model-repository",
                                          (root_ / "models").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    server_ = std::make_unique<ServerProcess>(arguments);
    const int port = server_->AwaitServing();
    ASSERT_NE(port, 0) << server_->standard_error();
    address_ = absl::StrCat("127.0.0.1:", port);
    client_ = Client::Create({.address = address_, .own_connection = true}).value();
  }
  std::string Embed(const std::string& model = "") {
    const absl::StatusOr<v1::EmbedResponse> response = client_->Embed(OneImage(model));
    return response.ok() ? response->results(0).embedding().data() : response.status().ToString();
  }
  std::string VersionOf(const std::string& name) {
    const absl::StatusOr<v1::Model> model = client_->GetModel(name);
    return model.ok() ? model->version() : std::string(absl::StatusCodeToString(model.status().code()));
  }
  void AwaitVersion(const std::string& name, const std::string& version) {
    while (VersionOf(name) != version) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  // The value of a series without labels, or with these.
  double Metric(const std::string& series) {
    const std::string line = server_->AwaitLog("metrics on port ");
    const std::string page = testing::HttpGet(std::atoi(line.c_str() + line.rfind(' ')), "/metrics");
    const size_t found = page.find("\n" + series + " ");
    return found == std::string::npos ? -1 : std::atof(page.c_str() + found + series.size() + 2);
  }

  // Of the server, by name. gRPC's own come and go as it likes.
  int ThreadsNamed(const std::string& name) {
    int count = 0;
    std::error_code ignored;
    for (const auto& thread : fs::directory_iterator(absl::StrCat("/proc/", server_->pid(), "/task"), ignored)) {
      std::string comm;
      std::getline(std::ifstream(thread.path() / "comm"), comm);
      count += comm == name ? 1 : 0;
    }
    return count;
  }

  const fs::path root_;
  std::unique_ptr<ServerProcess> server_;
  std::string address_;
  std::unique_ptr<Client> client_;
};

// Callers that never pause: calls, each on a connection of its own, and one stream.
class Callers {
 public:
  // `right`: the answers that may come. `until_unavailable`: that ends them, and is no failure.
  Callers(std::string address, std::set<std::string> right, bool until_unavailable = false)
      : address_(std::move(address)), right_(std::move(right)), until_unavailable_(until_unavailable) {
    const int clients = FromEnvironment("LION_RELOAD_CLIENTS", 4);
    for (int i = 0; i < clients; ++i) threads_.emplace_back([this] { Call(); });
    threads_.emplace_back([this] { Stream(); });
  }
  ~Callers() { Stop(); }
  void Stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  int64_t answered() const { return answered_; }
  int64_t failed() const { return failed_; }
  int64_t wrong() const { return wrong_; }
  // Of all calls, sorted. After Stop.
  std::vector<double> milliseconds() {
    std::sort(milliseconds_.begin(), milliseconds_.end());
    return milliseconds_;
  }

 private:
  void Take(const absl::StatusOr<v1::EmbedResponse>& response) {
    if (until_unavailable_ && absl::IsUnavailable(response.status())) {
      stop_ = true;
      return;
    }
    if (!response.ok()) {
      if (failed_++ == 0) std::cerr << "the first failure: " << response.status() << "\n";
      return;
    }
    if (right_.count(response->results(0).embedding().data()) == 0) ++wrong_;
    ++answered_;
  }
  void Call() {
    const auto client = Client::Create({.address = address_, .own_connection = true}).value();
    std::vector<double> took;
    while (!stop_) {
      const auto start = std::chrono::steady_clock::now();
      Take(client->Embed(OneImage()));
      took.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    std::lock_guard lock(mutex_);
    milliseconds_.insert(milliseconds_.end(), took.begin(), took.end());
  }
  void Stream() {
    const auto client = Client::Create({.address = address_, .own_connection = true}).value();
    const auto stream = client->OpenEmbedStream({.max_in_flight = 8}).value();
    while (!stop_) stream->Start(OneImage(), [this](const auto& response) { Take(response); });
    const absl::Status status = stream->Finish();
    EXPECT_TRUE(status.ok() || (until_unavailable_ && absl::IsUnavailable(status))) << status;
  }

  const std::string address_;
  const std::set<std::string> right_;
  const bool until_unavailable_;
  std::atomic<bool> stop_ = false;
  std::atomic<int64_t> answered_ = 0, failed_ = 0, wrong_ = 0;
  std::mutex mutex_;
  std::vector<double> milliseconds_;
  std::vector<std::thread> threads_;
};

TEST_F(ReloadTest, UnderLoadNoRequestFailsAndEveryAnswerIsOfTheOldOrTheNewModel) {
  const int reloads = FromEnvironment("LION_RELOADS", 5);
  Start();
  const std::string first = Embed();
  Place(1);
  server_->Signal(SIGHUP);
  AwaitVersion("m", "2");
  const std::string second = Embed();
  ASSERT_EQ(first.size(), second.size()) << first << second;
  ASSERT_NE(first, second);

  Callers callers(address_, {first, second});
  while (callers.answered() < 50) std::this_thread::yield();
  double resident = Metric("process_resident_memory_bytes");
  for (int i = 1; i <= reloads; ++i) {
    Place((i + 1) % 2);
    server_->Signal(SIGHUP);
    AwaitVersion("m", absl::StrCat(i + 2));
    const int64_t before = callers.answered();
    while (callers.answered() < before + 50 && callers.failed() == 0) std::this_thread::yield();
    ASSERT_EQ(callers.failed(), 0);
    // What the first reload takes stays: the allocator's arenas of its threads.
    if (i == 1) resident = std::max(resident, Metric("process_resident_memory_bytes"));
  }
  // A corrupt version: half of the file.
  fs::create_directories(root_ / "2");
  fs::copy_file(root_ / "0" / "checkpoint.pth", root_ / "2" / "checkpoint.pth");
  fs::resize_file(root_ / "2" / "checkpoint.pth", fs::file_size(root_ / "2" / "checkpoint.pth") / 2);
  Place(2);
  server_->Signal(SIGHUP);
  const std::string said = server_->AwaitLog("goes on serving");
  EXPECT_THAT(said, HasSubstr("checkpoint.pth"));
  EXPECT_THAT(said, HasSubstr(absl::StrCat("version ", reloads + 2, " goes on serving")));
  const int64_t before = callers.answered();
  while (callers.answered() < before + 50 && callers.failed() == 0) std::this_thread::yield();
  callers.Stop();

  EXPECT_EQ(callers.failed(), 0);
  EXPECT_EQ(callers.wrong(), 0);
  EXPECT_EQ(VersionOf("m"), absl::StrCat(reloads + 2));
  EXPECT_EQ(Embed(), (reloads % 2 == 0 ? second : first));
  EXPECT_EQ(Metric("lion_model_reloads_total{model=\"m\",result=\"success\"}"), reloads + 1);
  EXPECT_EQ(Metric("lion_model_reloads_total{model=\"m\",result=\"failure\"}"), 1);
  // Every old model is gone: its threads, and its memory but for what the allocator keeps.
  while (ThreadsNamed("lion-batcher") > 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(ThreadsNamed("lion-batcher"), 1);
  EXPECT_EQ(ThreadsNamed("lion-reply"), 1);
  const double grown_mib = (Metric("process_resident_memory_bytes") - resident) / (1 << 20);
  const std::vector<double> took = callers.milliseconds();
  std::cout << reloads << " reloads under load: " << callers.answered() << " requests answered, " << callers.failed()
            << " failed, " << callers.wrong() << " wrong; calls: median " << took[took.size() / 2]
            << " ms, 99th percentile " << took[took.size() * 99 / 100] << " ms, longest " << took.back()
            << " ms; resident memory " << grown_mib << " MiB more than after the first reload\n"
            << "a corrupt version: " << said << "\n";
#ifndef LION_SANITIZED  // which keep what is freed
  EXPECT_LT(grown_mib, 64);
#endif
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->AwaitExit(), 0) << server_->standard_error();
}

TEST_F(ReloadTest, SigtermWhileModelsAreLoadedLosesNothing) {
  Start();
  const std::string first = Embed();
  Callers callers(address_, {first}, /*until_unavailable=*/true);
  while (callers.answered() < 20) std::this_thread::yield();
  for (int i = 0; i < 3; ++i) server_->Signal(SIGHUP);
  ASSERT_FALSE(server_->AwaitLog("SIGHUP: loading the models again").empty());
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->AwaitExit(), 0) << server_->standard_error();
  callers.Stop();
  EXPECT_EQ(callers.failed(), 0);
  EXPECT_EQ(callers.wrong(), 0);
  EXPECT_THAT(server_->standard_error(), HasSubstr("all accepted calls are finished"));
}

TEST_F(ReloadTest, AModelComesAndGoesWithItsFolder) {
  Start({"--model-poll-s", "1", "--model", "given=" + (root_ / "1").string()});
  EXPECT_EQ(VersionOf("new"), "NOT_FOUND");
  Copy("lit_normal", root_ / "copying");
  fs::rename(root_ / "copying", root_ / "models" / "new");
  AwaitVersion("new", "1");
  EXPECT_EQ(Embed("new"), Embed("m"));
  EXPECT_EQ(client_->CheckHealth("new").value(), HealthState::kServing);
  // A new version beside it, and then a broken one.
  Copy("decay_normal", root_ / "models" / "new" / "1");
  AwaitVersion("new", "2");
  EXPECT_EQ(Embed("new"), Embed("given"));
  fs::create_directories(root_ / "models" / "new" / "2");
  std::ofstream(root_ / "models" / "new" / "2" / "checkpoint.pth") << "nonsense";
  EXPECT_THAT(server_->AwaitLog("goes on serving"), HasSubstr("model new: "));
  EXPECT_EQ(VersionOf("new"), "2");
  fs::remove_all(root_ / "models" / "new");
  while (VersionOf("new") != "NOT_FOUND") std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(client_->CheckHealth("new").value(), HealthState::kNotServing);
  EXPECT_EQ(client_->CheckHealth("").value(), HealthState::kServing);
  EXPECT_THAT(Embed("new"), HasSubstr("no model of the name 'new'; there is: 'given', 'm'"));
  EXPECT_EQ(VersionOf("m"), "1") << "nothing happened to its files";
}

TEST_F(ReloadTest, AnEmptyRepositoryWaitsForModels) {
  fs::remove(root_ / "models" / "m");
  Start();
  EXPECT_THAT(server_->standard_error(), HasSubstr("no models yet"));
  EXPECT_THAT(Embed(), HasSubstr("no models"));
  Place(1);
  server_->Signal(SIGHUP);
  AwaitVersion("m", "1");
  EXPECT_EQ(client_->CheckHealth("m").value(), HealthState::kServing);
}

TEST_F(ReloadTest, SighupDuringTheStartReloadsOnceItServes) {
  server_ = std::make_unique<ServerProcess>(
      std::vector<std::string>{"--host", "127.0.0.1", "--grpc-port", "0", "--model", "m=" + (root_ / "0").string()});
  ASSERT_FALSE(server_->AwaitLog("listening on ").empty());
  server_->Signal(SIGHUP);
  ASSERT_FALSE(server_->AwaitLog("will be loaded again once the server serves").empty());
  EXPECT_THAT(server_->AwaitLog("serves in place of version 1"), HasSubstr("model m: version 2"));
}

TEST_F(ReloadTest, WrongRepositoriesAreErrorsAtTheStart) {
  ServerProcess none({"--grpc-port", "0", "--model-repository", (root_ / "none").string()});
  EXPECT_EQ(none.AwaitExit(), 3) << none.standard_error();
  EXPECT_THAT(none.standard_error(), HasSubstr("cannot read " + (root_ / "none").string()));
  ServerProcess twice({"--grpc-port", "0", "--model-repository", (root_ / "models").string(), "--model",
                       "m=" + (root_ / "0").string()});
  EXPECT_EQ(twice.AwaitExit(), 2) << twice.standard_error();
  EXPECT_THAT(twice.standard_error(), HasSubstr("two models are named 'm'"));
  fs::create_directories(root_ / "models" / "empty");
  ServerProcess broken({"--grpc-port", "0", "--model-repository", (root_ / "models").string()});
  EXPECT_EQ(broken.AwaitExit(), 3) << broken.standard_error();
  EXPECT_THAT(broken.standard_error(), HasSubstr("holds no checkpoint"));
}

}  // namespace
}  // namespace lion
