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
  bool tls = false;             // so is it with any of the flags below that begin with tls_
  std::string tls_ca, tls_cert, tls_key, tls_server_name;
  std::string token_file;  // empty: the variable LION_TOKEN, if there is one
};

// Common to the commands that send images or texts.
struct InputFlags {
  ServerFlags server;
  std::vector<std::string> images;  // as ExpandFiles takes them
  std::vector<std::string> texts;   // this and what follows: as InputLists has it
  std::vector<std::string> text_files;
  bool pairs = false;
  bool skip_empty = false;
  InferenceOptions call;
  bool json = false;
};

int RunClassify(const InputFlags& flags);
// `output`: a path that ends in .npy or .jsonl, or empty for JSON lines on standard output.
int RunEmbed(const InputFlags& flags, const std::string& output);
int RunFillMask(const InputFlags& flags);
int RunTokenize(const InputFlags& flags);
// Prints the cosine of the embeddings of the two images and texts; of more, a table. `images`: paths as they are.
int RunSimilar(const InputFlags& flags);

int RunModels(const ServerFlags& flags, bool json);
// Asks until the server is SERVING or `wait` has passed; 0: once.
int RunHealth(const ServerFlags& flags, std::chrono::milliseconds wait);

int RunInspect(const std::string& path, const LoadOptions& options);

}  // namespace lion
