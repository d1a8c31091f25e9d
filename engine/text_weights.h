// The parameters of a text model, packed for one backend.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/parameters.h"
#include "kernels/operations.h"
#include "model_loader/model_loader.h"

namespace lion {

struct PackedText {
  std::vector<float> words;      // [vocabulary, D]: without the rows that only pad the table
  std::vector<float> types;      // [type vocabulary, D]
  std::vector<float> positions;  // [max_positions, D], or empty
  Norm embeddings_norm;
  std::vector<EncoderLayer> layers;
  std::unique_ptr<PackedLinear> pooler;      // [D, D], always float32; or nullptr
  std::unique_ptr<PackedLinear> classifier;  // [classes, D], always float32; or nullptr
  // The masked-token head: dense, GELU, norm, decoder. nullptr and empty where the model has none.
  std::unique_ptr<PackedLinear> mlm_dense;  // [D, D]
  Norm mlm_norm;
  std::vector<std::unique_ptr<PackedLinear>> mlm_decoder;  // parts of [vocabulary, D]
  int64_t bytes = 0;
};

absl::StatusOr<PackedText> PackText(const LoadedModel& model, const Operations& operations, DataType type);

}  // namespace lion
