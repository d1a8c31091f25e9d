// Calls to a real server, through the client library.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "client/cli/bench/sender.h"
#include "client/cli/bench/workload.h"
#include "lion/client.h"

namespace lion::bench {

// Takes connections, and the variants of a size, in turn.
class GrpcSender : public Sender {
 public:
  // At least one client; at least one variant of each size.
  GrpcSender(std::vector<std::unique_ptr<Client>> clients, std::vector<std::vector<PreparedRequest>> requests);

  int64_t Send(size_t size, std::function<void(Answer)> done) override;
  void Cancel() override;

 private:
  const std::vector<std::vector<PreparedRequest>> requests_;
  std::vector<size_t> next_variant_;  // [sizes]
  size_t next_client_ = 0;
  const std::vector<std::unique_ptr<Client>> clients_;
};

// What a response says, as the recorder wants it. An error in a result is the error of the call.
Answer ToAnswer(const absl::StatusOr<v1::EmbedResponse>& response);
Answer ToAnswer(const absl::StatusOr<v1::ClassifyResponse>& response);

}  // namespace lion::bench
