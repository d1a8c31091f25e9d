// `lion bench --local`: how fast a checkpoint runs on this machine, without a server.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "model_loader/model_loader.h"

namespace lion::bench {

struct LocalFlags {
  std::string model;                      // checkpoint file or folder
  LoadOptions load;                       // what the checkpoint does not say
  EngineOptions engine;                   // max_batch_tokens is settled by the work
  std::string sizes;                      // of images, as ParseSizeMix takes them; empty: a few squares
  std::vector<int64_t> lengths;           // of texts, in tokens; empty: a few
  std::vector<int64_t> batches = {1, 8};  // inputs at a time
  double seconds = 4;                     // about as long is measured for each row
  std::string json;                       // as BenchFlags has it
};

// One row of the table.
struct LocalRow {
  std::string input;  // "224x224", "512 tokens"
  int64_t batch = 0;
  int64_t tokens = 0;     // of the batch
  double forward_ms = 0;  // median
  double limit_ms = 0;    // its matrix products alone, in the same run
  double tokens_per_s = 0;
  int repeats = 0;
};

struct LocalReport {
  std::string model;
  std::string variant;
  std::string isa;
  std::string compute_type;
  int threads = 0;
  int64_t bytes_per_token = 0;
  int64_t weight_bytes = 0;
  std::vector<LocalRow> rows;
};

// INVALID_ARGUMENT: a checkpoint that does not load, an image smaller than a patch, a text longer than the model's
// positions, sizes for a text model or lengths for a vision model. RESOURCE_EXHAUSTED: no memory for the largest batch.
absl::StatusOr<LocalReport> MeasureLocal(const LocalFlags& flags);

std::string LocalText(const LocalReport& report);
std::string LocalJson(const LocalReport& report);

// Exit status as the commands of `lion` have it.
int RunLocalBench(const LocalFlags& flags);

}  // namespace lion::bench
