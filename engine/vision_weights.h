// The parameters of a vision model, packed for one backend.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/parameters.h"
#include "kernels/operations.h"
#include "model_loader/model_loader.h"

namespace lion {

struct PackedVision {
  std::unique_ptr<PackedLinear> patch;  // [D, 3 P P]
  std::vector<float> cls_token;         // [D]
  std::vector<float> positions;         // [1 + grid * grid, D], or empty
  std::vector<EncoderLayer> layers;
  Norm norm;
  std::unique_ptr<PackedLinear> head;  // [classes, D], always float32; or nullptr
  int64_t bytes = 0;
};

absl::StatusOr<PackedVision> PackVision(const LoadedModel& model, const Operations& operations, DataType type);

}  // namespace lion
