// The parameters of a vision model, packed for one backend.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/parameters.h"
#include "kernels/operations.h"
#include "model_loader/model_loader.h"

namespace lion {

struct VisionBlock {
  Norm norm1;
  // [3 D + gates, D]: the rows of the gates (LION-S: H for each order) are appended to qkv's.
  std::unique_ptr<PackedLinear> qkv;
  std::array<std::vector<float>, 2> log_decay;  // LION-D: [H] for each order
  std::unique_ptr<PackedLinear> proj;
  Norm norm2;
  std::unique_ptr<PackedLinear> fc1;
  std::unique_ptr<PackedLinear> fc2;
};

struct PackedVision {
  std::unique_ptr<PackedLinear> patch;  // [D, 3 P P]
  std::vector<float> cls_token;         // [D]
  std::vector<float> positions;         // [1 + grid * grid, D], or empty
  std::vector<VisionBlock> blocks;
  Norm norm;
  std::unique_ptr<PackedLinear> head;  // [classes, D], always float32; or nullptr
  int64_t bytes = 0;
};

// How many orders the mixer scans: 2 for the S order, but 1 for LION-LIT, whose mask is 1 in any order.
int MixerOrders(const ModelConfig& config);

absl::StatusOr<PackedVision> PackVision(const LoadedModel& model, const Operations& operations, DataType type);

}  // namespace lion
