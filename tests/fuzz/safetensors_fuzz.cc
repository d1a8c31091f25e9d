// A safetensors file, and the architecture that its tensors' names and shapes tell.
#include "model_loader/safetensors.h"

#include "tests/fuzz/check.h"
#include "tests/fuzz/model.h"
#include "tests/fuzz/peak_memory.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lion;
  const Bytes bytes(data, size);
  Checkpoint checkpoint;
  {
    fuzz::PeakMemory memory;
    auto tensors = ReadSafetensors(bytes);
    // A value of JSON takes some 100 bytes in a tree; nothing is taken because the file claims a size.
    fuzz::CheckAtMost(memory.bytes(), 1024 * static_cast<int64_t>(size) + 16384, "bytes of memory to read the header");
    fuzz::CheckRefusal(tensors.status(), absl::StatusCode::kInvalidArgument, "reading a safetensors file");
    if (!tensors.ok()) return 0;
    checkpoint.tensors = *std::move(tensors);
  }
  int64_t tensor_bytes = 0;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    const auto* begin = static_cast<const uint8_t*>(tensor.data);
    const int64_t length = tensor.elements() * TensorTypeSize(tensor.type);
    fuzz::Check(begin >= data && begin + length <= data + size, "a tensor lies inside the file");
    tensor_bytes += length;
  }
  fuzz::CheckAtMost(tensor_bytes, static_cast<int64_t>(size), "bytes of all tensors");
  fuzz::ReadAllElements(checkpoint.tensors, static_cast<int64_t>(size));
  StripPrefixes(checkpoint.tensors);
  fuzz::ReadModel(checkpoint, {.allow_unused = true, .heads = 1, .pooling = Pooling::kMean});
  return 0;
}
