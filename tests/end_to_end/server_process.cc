#include "tests/end_to_end/server_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace lion::testing {

ServerProcess::ServerProcess(const std::vector<std::string>& arguments,
                             const std::vector<std::pair<std::string, std::string>>& environment,
                             const std::string& error_file) {
  std::vector<char*> argv = {const_cast<char*>(LION_SERVER_BINARY)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  int error_pipe[2];
  int output_pipe[2];
  if (pipe(error_pipe) != 0 || pipe(output_pipe) != 0) {
    std::perror("pipe");
    std::abort();
  }
  pid_ = fork();
  if (pid_ == 0) {
    dup2(error_pipe[1], STDERR_FILENO);
    dup2(output_pipe[1], STDOUT_FILENO);
    for (const int descriptor : {error_pipe[0], error_pipe[1], output_pipe[0], output_pipe[1]}) close(descriptor);
    if (!error_file.empty()) dup2(open(error_file.c_str(), O_WRONLY), STDERR_FILENO);
    // Tests run side by side.
    setenv("LION_METRICS_PORT", "0", 1);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    execv(LION_SERVER_BINARY, argv.data());
    std::perror(LION_SERVER_BINARY);
    _exit(127);
  }
  close(error_pipe[1]);
  close(output_pipe[1]);
  error_reader_ = std::thread([this, descriptor = error_pipe[0]] { Read(descriptor, &error_); });
  output_reader_ = std::thread([this, descriptor = output_pipe[0]] { Read(descriptor, &output_); });
}

ServerProcess::~ServerProcess() {
  if (!exited_) {
    kill(pid_, SIGKILL);
    AwaitExit();
  }
}

void ServerProcess::Read(int descriptor, std::string* into) {
  char buffer[4096];
  ssize_t count;
  while ((count = read(descriptor, buffer, sizeof(buffer))) > 0) {
    std::lock_guard lock(mutex_);
    into->append(buffer, static_cast<size_t>(count));
    changed_.notify_all();
  }
  close(descriptor);
  std::lock_guard lock(mutex_);
  --open_;
  changed_.notify_all();
}

std::string ServerProcess::AwaitLog(const std::string& text) {
  std::unique_lock lock(mutex_);
  while (true) {
    const size_t found = error_.find(text);
    const size_t end = found == std::string::npos ? found : error_.find('\n', found);
    if (end != std::string::npos) {
      const size_t begin = error_.rfind('\n', found);
      return error_.substr(begin + 1, end - begin - 1);
    }
    if (open_ == 0) return "";
    changed_.wait(lock);
  }
}

int ServerProcess::AwaitServing() {
  const std::string line = AwaitLog("SERVING on ");
  const size_t port = line.rfind("port ");
  return port == std::string::npos ? 0 : std::atoi(line.c_str() + port + 5);
}

void ServerProcess::Signal(int signal) { kill(pid_, signal); }

int ServerProcess::AwaitExit() {
  if (exited_) return exit_code_;
  int status = 0;
  waitpid(pid_, &status, 0);
  error_reader_.join();
  output_reader_.join();
  exited_ = true;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  return exit_code_;
}

std::string ServerProcess::standard_error() {
  std::lock_guard lock(mutex_);
  return error_;
}

std::string ServerProcess::standard_output() {
  std::lock_guard lock(mutex_);
  return output_;
}

}  // namespace lion::testing
