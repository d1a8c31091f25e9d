// The input tensors of a ModelInfer request, checked before anything reads them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "inference/inference.pb.h"

namespace lion {

// Points into its request. Its elements, raw or as contents, are as many as its shape says; those of BYTES are checked
// only by ReadBytes.
struct InputTensor {
  const inference::ModelInferRequest::InferInputTensor* header = nullptr;
  const std::string* raw = nullptr;  // null: the elements are contents
  int64_t elements = 0;              // > 0

  std::string_view name() const { return header->name(); }
  std::string_view datatype() const { return header->datatype(); }
  std::span<const int64_t> shape() const {  // every extent > 0
    return {header->shape().data(), static_cast<size_t>(header->shape_size())};
  }
};

// "[2, 3, 224, 224]"; a long one is cut.
std::string ShapeText(std::span<const int64_t> shape);

// "input 'pixels': " and what is wrong with it, as INVALID_ARGUMENT.
absl::Status OfTensor(std::string_view name, std::string_view wrong);

// All inputs, in the request's order. INVALID_ARGUMENT, naming the tensor, what was found and what was expected: raw
// bytes and contents in one request, another number of raw entries than of inputs, a name twice, a datatype that the
// protocol does not have, an extent below 1, a shape of too many elements, bytes or contents that do not fit.
absl::StatusOr<std::vector<InputTensor>> ReadTensors(const inference::ModelInferRequest& request);

// The elements of a tensor of BYTES. INVALID_ARGUMENT: a length that points past the end, or bytes left over.
absl::StatusOr<std::vector<std::string_view>> ReadBytes(const InputTensor& tensor);

// Of INT64.
std::span<const int64_t> ReadInt64(const InputTensor& tensor);

// Of FP32 or UINT8: where the elements lie, one after the other. What is not there in that form is put into `narrowed`,
// which must live as long. INVALID_ARGUMENT: contents of UINT8 with a value above 255.
absl::StatusOr<const void*> ReadPixels(const InputTensor& tensor, std::vector<uint8_t>* narrowed);

}  // namespace lion
