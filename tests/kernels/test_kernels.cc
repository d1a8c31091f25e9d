#include "tests/kernels/test_kernels.h"

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

namespace lion::testing {
namespace {

constexpr uint8_t kGuardByte = 0xA5;

}  // namespace

const Operations* CpuKernels() {
  const char* isa = std::getenv("LION_TEST_ISA");
  const absl::StatusOr<const Operations*> operations = CpuOperations(isa == nullptr ? "auto" : isa);
  if (operations.ok()) return *operations;
  std::cout << "SKIPPED, MACHINE LACKS " << isa << ": " << operations.status() << "\n";
  return nullptr;
}

Buffer::Buffer(DataType type, int64_t count)
    : type_(type), count_(count), bytes_(2 * kGuard + count * DataTypeSize(type), kGuardByte) {
  // All bits set is a NaN in both types.
  std::memset(data(), 0xff, count * DataTypeSize(type));
}

Buffer Buffer::Of(DataType type, std::span<const float> values) {
  Buffer buffer(type, static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    if (type == DataType::kFloat32) {
      buffer.floats()[i] = values[i];
    } else {
      static_cast<uint16_t*>(buffer.data())[i] = ToBFloat16(values[i]);
    }
  }
  return buffer;
}

std::vector<float> Buffer::values() const {
  std::vector<float> values(count_);
  for (int64_t i = 0; i < count_; ++i) {
    const uint8_t* element = bytes_.data() + kGuard + i * DataTypeSize(type_);
    if (type_ == DataType::kFloat32) {
      std::memcpy(&values[i], element, 4);
    } else {
      uint16_t bits;
      std::memcpy(&bits, element, 2);
      values[i] = FromBFloat16(bits);
    }
  }
  return values;
}

bool Buffer::guards_intact() const {
  for (int64_t i = 0; i < kGuard; ++i) {
    if (bytes_[i] != kGuardByte || bytes_[bytes_.size() - 1 - i] != kGuardByte) return false;
  }
  return true;
}

std::vector<float> Normal(std::mt19937& random, int64_t count, float scale, float shift) {
  std::normal_distribution<float> normal(shift, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

std::unique_ptr<KernelContext> MakeContext(const Operations& operations, int threads) {
  return operations.make_context({.threads = threads}).value();
}

std::vector<int64_t> Offsets(std::initializer_list<int64_t> lengths) {
  std::vector<int64_t> offsets = {0};
  for (int64_t length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

}  // namespace lion::testing
