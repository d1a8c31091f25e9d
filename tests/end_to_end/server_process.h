// The real lion-server as a child process.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lion::testing {

// Killed with its object if it still runs. Methods are for one thread.
class ServerProcess {
 public:
  // `environment`: variables besides this process's own. `error_file`: where its standard error goes, so that nothing
  // of the log is seen here; empty: it is.
  explicit ServerProcess(const std::vector<std::string>& arguments,
                         const std::vector<std::pair<std::string, std::string>>& environment = {},
                         const std::string& error_file = "");
  ~ServerProcess();

  // Waits until a line of the log contains `text`; that line. Empty: the process ended without one.
  std::string AwaitLog(const std::string& text);
  // Waits until it serves; the port it is on, or 0 if it ended instead.
  int AwaitServing();
  void Signal(int signal);
  pid_t pid() const { return pid_; }
  // Waits for its end; the exit code, or 1000 + the signal that killed it.
  int AwaitExit();
  // What it has written so far; all of it after AwaitExit.
  std::string standard_error();
  std::string standard_output();

 private:
  void Read(int descriptor, std::string* into);

  pid_t pid_ = -1;
  int exit_code_ = -1;
  bool exited_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string error_;  // guarded by mutex_, as all below
  std::string output_;
  int open_ = 2;  // descriptors that may still bring something
  std::thread error_reader_;
  std::thread output_reader_;
};

}  // namespace lion::testing
