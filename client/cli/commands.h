// The commands of `lion`, with their flags as plain values. Each returns the exit status: 0, or 1 where anything
// failed, which standard error then explains.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/grpc_transport.h"
#include "model_loader/model_loader.h"

namespace lion {

struct ServerFlags {
  std::string address = "localhost:8001";
  int64_t timeout_ms = 10'000;  // of each call; 0: none
};

// Common to the commands that send images.
struct ImageFlags {
  ServerFlags server;
  std::vector<std::string> arguments;  // as ExpandFiles takes them
  ImageCallOptions call;
  bool json = false;
};

int RunClassify(const ImageFlags& flags);
// `output`: a path that ends in .npy or .jsonl, or empty for JSON lines on standard output.
int RunEmbed(const ImageFlags& flags, const std::string& output);
// Prints the cosine of the embeddings of the two files in `arguments`.
int RunSimilar(const ImageFlags& flags);

int RunModels(const ServerFlags& flags, bool json);
// Asks until the server is SERVING or `wait` has passed; 0: once.
int RunHealth(const ServerFlags& flags, std::chrono::milliseconds wait);

int RunInspect(const std::string& path, const LoadOptions& options);

}  // namespace lion
