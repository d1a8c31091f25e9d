// A read-only, possibly strided view of a tensor inside a checkpoint file.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lion {

enum class TensorType : uint8_t {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUint8,
  kBool
};

// "float32" and so on; size in bytes of one element.
std::string_view TensorTypeName(TensorType type);
int64_t TensorTypeSize(TensorType type);

// Does not own its data: the Checkpoint it came from must outlive it. Copyable, immutable, safe to read from any
// thread.
struct TensorView {
  TensorType type = TensorType::kFloat32;
  std::vector<int64_t> shape;    // empty: a scalar
  std::vector<int64_t> strides;  // in elements, one per dimension; validated to stay inside the storage
  const void* data = nullptr;    // the first element; may be unaligned

  int64_t elements() const;
};

// The elements in row-major order, converted to float32 (float64 and integers are rounded). Whoever reads a checkpoint
// has validated the view, so this cannot fail.
std::vector<float> ToFloat32(const TensorView& view);

}  // namespace lion
