// Which models are loaded, replaced and removed, and when: with real folders, a clock that stands still and a loader
// that does as it is told.
#include "server/model_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "tests/server/fake_clock.h"
#include "tests/server/puppet_engine.h"

namespace lion {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kSecondNs = 1'000'000'000;

class ModelControlTest : public ::testing::Test {
 protected:
  ModelControlTest() : root_(fs::path(::testing::TempDir()) / ("control_" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_ / "models");
  }
  ~ModelControlTest() override {
    Release();
    control_.reset();
    fs::remove_all(root_);
  }

  void Write(const std::string& name, const std::string& content) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << content;
  }

  void Make(ModelControlOptions options) {
    ModelControlActions actions;
    actions.load = [this](const ModelControlActions::Load& load) { return LoadIt(load); };
    actions.put = [this](std::unique_ptr<ModelService> model) {
      Note("put " + model->info().name + " " + model->info().version);
      return true;
    };
    actions.remove = [this](const std::string& name) { Note("remove " + name); };
    control_ = std::make_unique<ModelControl>(options, std::move(actions), &clock_, &metrics_);
  }
  // With what is in models/ and `options`; version 1 of each counts as loaded.
  void Begin(int64_t poll_s, std::vector<ModelSpec> given = {}) {
    Make({.models = std::move(given), .repository = (root_ / "models").string(), .poll_ns = poll_s * kSecondNs});
    ASSERT_TRUE(control_->Begin().ok());
    control_->Run();
  }

  // What the files say is what happens: "ok" or an error. "write": the folder changes while it is read.
  absl::StatusOr<std::unique_ptr<ModelService>> LoadIt(const ModelControlActions::Load& load) {
    std::string content;
    std::ifstream(load.spec.path + "/file") >> content;
    Note("load " + load.spec.name + " " + load.version);
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !held_; });
      models_ = load.models;
    }
    if (load.cancelled->load()) return absl::CancelledError("given up");
    if (content == "write") std::ofstream(load.spec.path + "/more") << "more";
    if (content == "memory") throw std::bad_alloc();
    if (content == "bad") return absl::InvalidArgumentError("the file is bad");
    const SharedResources shared = {.clock = &clock_,
                                    .decode_pool = &pool_,
                                    .decode_bytes = &bytes_,
                                    .tokenize_pool = &pool_,
                                    .device_turn = &device_turn_};
    return ModelService::Create({.name = load.spec.name, .version = load.version}, std::make_unique<PuppetEngine>(),
                                nullptr, {}, shared, [](const absl::Status&) {});
  }

  void Note(const std::string& event) {
    std::lock_guard lock(mutex_);
    events_.push_back(event);
    changed_.notify_all();
  }
  // The events so far, once the last of them is `last`; forgets them.
  std::vector<std::string> EventsTo(const std::string& last) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !events_.empty() && events_.back() == last; });
    return std::exchange(events_, {});
  }
  std::vector<std::string> events() {
    std::lock_guard lock(mutex_);
    return events_;
  }
  void Hold() {
    std::lock_guard lock(mutex_);
    held_ = true;
  }
  void Release() {
    std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }

  // Blocks until the control has done all that it was asked for, by asking for something that does nothing.
  void AwaitIdle() {
    std::promise<absl::Status> done;
    control_->Unload("nobody", [&](const absl::Status& status) { done.set_value(status); });
    EXPECT_TRUE(absl::IsNotFound(done.get_future().get()));
  }
  // Lets time pass, and the control look.
  void Pass(int64_t seconds) {
    for (int64_t i = 0; i < seconds; ++i) {
      clock_.AwaitWaiter();
      now_ns_ += kSecondNs;
      clock_.AdvanceTo(now_ns_);
      AwaitIdle();
    }
  }
  std::string Metric(const std::string& model, const std::string& result) {
    const std::string text = metrics_.Text();
    const std::string key = "lion_model_reloads_total{model=\"" + model + "\",result=\"" + result + "\"} ";
    const size_t found = text.find(key);
    return found == std::string::npos ? "none"
                                      : text.substr(found + key.size(), text.find('\n', found) - found - key.size());
  }

  const fs::path root_;
  FakeClock clock_;
  int64_t now_ns_ = clock_.NowNs();
  FairBudget bytes_{1 << 20}, device_turn_{1};
  PreparePool pool_{{.threads = 1}, &clock_, nullptr};
  Metrics metrics_{"1", "cpu"};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> events_;
  bool held_ = false;
  size_t models_ = 0;
  std::unique_ptr<ModelControl> control_;
};

TEST_F(ModelControlTest, BeginsWithWhatIsGivenAndWhatIsInTheFolder) {
  Write("models/b/3/file", "ok");
  Write("models/b/12/file", "ok");
  Write("models/c/file", "ok");
  Make({.models = {{"a", "/somewhere"}}, .repository = (root_ / "models").string()});
  const absl::StatusOr<std::vector<ModelSpec>> specs = control_->Begin();
  ASSERT_TRUE(specs.ok()) << specs.status();
  ASSERT_EQ(specs->size(), 3u);
  EXPECT_EQ((*specs)[0].path, "/somewhere");
  EXPECT_EQ((*specs)[1].path, (root_ / "models/b/12").string());
  EXPECT_EQ((*specs)[2].path, (root_ / "models/c").string());
}

TEST_F(ModelControlTest, ANameTwiceIsAnErrorAtTheBeginning) {
  Write("models/a/file", "ok");
  Make({.models = {{"a", "/somewhere"}}, .repository = (root_ / "models").string()});
  const absl::Status status = control_->Begin().status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("two models are named 'a'"));
  Make({.repository = (root_ / "none").string()});
  EXPECT_TRUE(absl::IsUnavailable(control_->Begin().status()));
}

TEST_F(ModelControlTest, ReloadAllLoadsEveryModelAgainAndTakesInAndRemoves) {
  Write("given/file", "ok");
  Write("models/a/file", "ok");
  Write("models/b/file", "ok");
  Begin(0, {{"given", (root_ / "given").string()}});
  fs::remove_all(root_ / "models/b");
  Write("models/c/file", "ok");
  control_->ReloadAll();
  EXPECT_THAT(EventsTo("put given 2"),
              ElementsAre("load a 2", "put a 2", "remove b", "load c 1", "put c 1", "load given 2", "put given 2"));
  AwaitIdle();
  EXPECT_EQ(models_, 3u);
  EXPECT_EQ(Metric("a", "success"), "1");
  EXPECT_EQ(Metric("b", "success"), "none");
  EXPECT_EQ(Metric("c", "success"), "1");
  // It goes on counting where it was.
  Write("models/b/file", "ok");
  control_->ReloadAll();
  EXPECT_THAT(EventsTo("put given 3"), ElementsAre("load a 3", "put a 3", "load b 2", "put b 2", "load c 2", "put c 2",
                                                   "load given 3", "put given 3"));
}

TEST_F(ModelControlTest, AStormOfReloadsIsOneMore) {
  Write("models/a/file", "ok");
  Begin(0);
  Hold();
  control_->ReloadAll();
  EventsTo("load a 2");
  for (int i = 0; i < 100; ++i) control_->ReloadAll();
  Release();
  EXPECT_THAT(EventsTo("put a 3"), ElementsAre("put a 2", "load a 3", "put a 3"));
  AwaitIdle();
  EXPECT_THAT(events(), IsEmpty());
}

TEST_F(ModelControlTest, ABrokenVersionLeavesTheOldOneAndIsTriedOnce) {
  Write("models/a/1/file", "ok");
  Begin(/*poll_s=*/1);
  Write("models/a/2/file", "bad");
  Pass(5);
  EXPECT_THAT(events(), ElementsAre("load a 2"));
  EXPECT_EQ(Metric("a", "failure"), "1");
  EXPECT_EQ(Metric("a", "success"), "0");
  const std::vector<ModelControl::ModelState> index = control_->Index();
  ASSERT_EQ(index.size(), 1u);
  EXPECT_EQ(index[0].version, "1");
  EXPECT_EQ(index[0].failure, "the file is bad");
  // Mended: the number was not used up.
  Write("models/a/2/file", "ok");
  Pass(3);
  EXPECT_THAT(events(), ElementsAre("load a 2", "load a 2", "put a 2"));
  EXPECT_EQ(control_->Index()[0].version, "2");
  EXPECT_EQ(control_->Index()[0].failure, "");
}

TEST_F(ModelControlTest, ABrokenVersionThatIsTakenAwayLeavesNothingToDo) {
  Write("models/a/1/file", "ok");
  Begin(1);
  Write("models/a/2/file", "bad");
  Pass(3);
  fs::remove_all(root_ / "models/a/2");
  Pass(3);
  EXPECT_THAT(events(), ElementsAre("load a 2"));
}

TEST_F(ModelControlTest, NoMemoryIsAFailureLikeAnyOther) {
  Write("models/a/file", "memory");
  Begin(0);
  control_->ReloadAll();
  EventsTo("load a 2");
  AwaitIdle();
  EXPECT_THAT(control_->Index()[0].failure, HasSubstr("no memory"));
  EXPECT_EQ(control_->Index()[0].version, "1");
}

TEST_F(ModelControlTest, AFolderThatIsBeingWrittenIsLeftAloneUntilItIsStill) {
  Write("models/a/file", "ok");
  Begin(1);
  Pass(3);
  for (const char* size : {"ok-", "ok--", "ok---"}) {
    Write("models/a/file", size);
    Pass(1);
    EXPECT_THAT(events(), IsEmpty()) << size;
  }
  Pass(1);
  EXPECT_THAT(events(), ElementsAre("load a 2", "put a 2"));
  Pass(3);
  EXPECT_THAT(events(), ElementsAre("load a 2", "put a 2"));
}

TEST_F(ModelControlTest, AModelComesAndGoesWithItsFolder) {
  Begin(1);
  Write("models/new/file", "ok");
  Pass(1);
  EXPECT_THAT(events(), IsEmpty());
  Pass(1);
  EXPECT_THAT(events(), ElementsAre("load new 1", "put new 1"));
  EXPECT_EQ(Metric("new", "success"), "1");
  fs::rename(root_ / "models/new", root_ / "away");
  Pass(1);
  fs::rename(root_ / "away", root_ / "models/new");  // as when a folder is exchanged in two steps
  Pass(2);
  EXPECT_THAT(events(), ElementsAre("load new 1", "put new 1"));
  fs::remove_all(root_ / "models/new");
  Pass(2);
  EXPECT_THAT(EventsTo("remove new"), ElementsAre("load new 1", "put new 1", "remove new"));
  AwaitIdle();
  EXPECT_THAT(control_->Index(), IsEmpty());
  EXPECT_EQ(Metric("new", "success"), "none");
}

TEST_F(ModelControlTest, ANewFolderThatIsBrokenCountsForNoModel) {
  Begin(1);
  Write("models/new/file", "bad");
  Pass(3);
  EXPECT_THAT(events(), ElementsAre("load new 1"));
  EXPECT_EQ(Metric("new", "failure"), "none");
  EXPECT_EQ(Metric("unknown", "failure"), "1");
  EXPECT_THAT(metrics_.Text(), Not(HasSubstr("model=\"new\"")));
}

TEST_F(ModelControlTest, WhatChangesWhileItIsReadIsNotTakenAndTriedAgain) {
  Write("models/a/file", "write");
  Begin(/*poll_s=*/0);
  control_->ReloadAll();
  EventsTo("load a 2");
  AwaitIdle();
  EXPECT_THAT(control_->Index()[0].failure, HasSubstr("changed while it was read"));
  EXPECT_EQ(Metric("a", "failure"), "1");
  Write("models/a/file", "ok");
  Pass(3);
  EXPECT_THAT(EventsTo("put a 2"), ElementsAre("load a 2", "put a 2"));
}

TEST_F(ModelControlTest, ARepositoryThatCannotBeReadTakesNothingAway) {
  Write("models/a/file", "ok");
  Begin(1);
  fs::rename(root_ / "models", root_ / "unplugged");
  Pass(4);
  control_->ReloadAll();
  AwaitIdle();
  EXPECT_THAT(events(), IsEmpty());
  EXPECT_EQ(control_->Index()[0].version, "1");
  fs::rename(root_ / "unplugged", root_ / "models");
  control_->ReloadAll();
  EXPECT_THAT(EventsTo("put a 2"), ElementsAre("load a 2", "put a 2"));
}

TEST_F(ModelControlTest, AGivenModelIsNeitherRemovedNorReplacedByAFolder) {
  Write("given/file", "ok");
  Begin(1, {{"given", (root_ / "given").string()}});
  Write("models/given/file", "ok");
  Pass(3);
  EXPECT_THAT(events(), IsEmpty());
  fs::remove_all(root_ / "given");
  Write("models/given/file", "ok-");
  Pass(3);
  EXPECT_THAT(events(), ElementsAre("load given 2", "put given 2")) << "the loader says what is missing";
}

TEST_F(ModelControlTest, ModelsAreLoadedAndUnloadedByName) {
  Write("models/a/file", "ok");
  Begin(1);
  const auto ask = [this](bool load, const std::string& name) {
    std::promise<absl::Status> promise;
    const auto done = [&](const absl::Status& status) { promise.set_value(status); };
    load ? control_->Load(name, done) : control_->Unload(name, done);
    return promise.get_future().get();
  };
  Write("models/b/file", "ok");
  EXPECT_TRUE(absl::IsNotFound(ask(false, "b")));
  EXPECT_TRUE(absl::IsNotFound(ask(true, "c")));
  EXPECT_TRUE(ask(true, "b").ok());
  EXPECT_TRUE(ask(false, "a").ok());
  EXPECT_TRUE(absl::IsNotFound(ask(false, "a")));
  EXPECT_THAT(EventsTo("remove a"), ElementsAre("load b 1", "put b 1", "remove a"));
  // Whatever happens to its files, and to the others.
  Write("models/a/file", "ok-");
  Pass(3);
  control_->ReloadAll();
  EXPECT_THAT(EventsTo("put b 2"), ElementsAre("load b 2", "put b 2"));
  EXPECT_TRUE(ask(true, "a").ok());
  EXPECT_THAT(EventsTo("put a 2"), ElementsAre("load a 2", "put a 2"));
  Write("models/a/file", "bad");
  EXPECT_EQ(ask(true, "a").message(), "the file is bad");
}

TEST_F(ModelControlTest, StoppingGivesUpWhatIsBeingLoaded) {
  Write("models/a/file", "ok");
  Write("models/b/file", "ok");
  Begin(1);
  Hold();
  control_->ReloadAll();
  EventsTo("load a 2");
  std::promise<absl::Status> later;
  control_->Load("b", [&](const absl::Status& status) { later.set_value(status); });
  control_->Stop();
  EXPECT_FALSE(control_->AwaitStopped(clock_.NowNs()));
  Release();
  EXPECT_TRUE(control_->AwaitStopped(kNever));
  EXPECT_TRUE(absl::IsUnavailable(later.get_future().get()));
  control_->ReloadAll();
  std::promise<absl::Status> too_late;
  control_->Unload("a", [&](const absl::Status& status) { too_late.set_value(status); });
  EXPECT_TRUE(absl::IsUnavailable(too_late.get_future().get()));
  control_.reset();
  EXPECT_THAT(events(), IsEmpty());
  EXPECT_EQ(Metric("a", "failure"), "0");
}

}  // namespace
}  // namespace lion
