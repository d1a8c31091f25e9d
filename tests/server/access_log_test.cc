// The access log where its reader does not read, or there is no room for it.
#include "server/access_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace lion {
namespace {

// This process's standard output goes elsewhere meanwhile.
class RedirectedOutput {
 public:
  explicit RedirectedOutput(int descriptor) : saved_((std::fflush(stdout), dup(STDOUT_FILENO))) {
    dup2(descriptor, STDOUT_FILENO);
  }
  ~RedirectedOutput() {
    dup2(saved_, STDOUT_FILENO);
    close(saved_);
  }

 private:
  const int saved_;
};

std::string Line(int i) { return absl::StrCat("\"number\":", i); }

TEST(AccessLogTest, WhoDoesNotReadItHoldsNobodyUpAndIsToldWhatIsLost) {
  constexpr int kLines = 100'000;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::atomic<int64_t> lost = 0;
  std::string text;
  {
    const RedirectedOutput output(ends[1]);
    std::unique_ptr<AccessLog> log = AccessLog::Start([&lost](int64_t lines) { lost = lines; });
    // Returns, although the pipe holds a small part of them.
    for (int i = 0; i < kLines; ++i) log->Write(Line(i));
    EXPECT_GT(lost, 0);
    std::thread reader([&text, descriptor = ends[0]] {
      char buffer[4096];
      ssize_t size;
      while ((size = read(descriptor, buffer, sizeof(buffer))) > 0) text.append(buffer, static_cast<size_t>(size));
    });
    log.reset();
    dup2(STDERR_FILENO, STDOUT_FILENO);
    close(ends[1]);
    reader.join();
  }
  close(ends[0]);
  std::istringstream lines(text);
  int count = 0;
  int last = -1;
  for (std::string line; std::getline(lines, line); ++count) {
    const nlohmann::json parsed = nlohmann::json::parse(line);
    ASSERT_GT(parsed["number"], last) << "in order, none twice";
    last = parsed["number"];
    EXPECT_EQ(parsed["time"].get<std::string>().size(), std::string("2026-01-01T00:00:00.000Z").size());
  }
  EXPECT_EQ(last, kLines - 1) << "it is the oldest that are lost";
  EXPECT_GE(count, static_cast<int>(AccessLog::kMostWaiting));
  EXPECT_LT(count, kLines);
}

TEST(AccessLogTest, AFullDiskLosesLinesAndNothingElse) {
  const int full = open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  const RedirectedOutput output(full);
  const std::unique_ptr<AccessLog> log = AccessLog::Start([](int64_t) {});
  for (int i = 0; i < 1000; ++i) log->Write(Line(i));
  close(full);
}

}  // namespace
}  // namespace lion
