// The kernels under test, and buffers that show what was not written and what was written too far.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "kernels/operations.h"

namespace lion::testing {

// Of the instruction set in LION_TEST_ISA ("auto" when unset). nullptr, with a note on stdout, when this machine lacks
// it: the test then skips itself.
const Operations* CpuKernels();

// NOLINTBEGIN(bugprone-macro-parentheses): it declares `name`.
#define LION_CPU_KERNELS_OR_SKIP(name)                            \
  const Operations* const name##_or_null = testing::CpuKernels(); \
  if (name##_or_null == nullptr) GTEST_SKIP();                    \
  const Operations& name = *name##_or_null
// NOLINTEND(bugprone-macro-parentheses)

// Relative L2 bounds against float64, and why. float32: the mixer's sums of some hundred products, each rounded to
// 6e-8, stay under 1e-6; 1e-5 is the design's bound. bfloat16: inputs and outputs rounded to 2^-9 each.
inline constexpr double kFloat32Bound = 1e-5;
inline constexpr double kBFloat16Bound = 2e-2;

// An array of either activation type, begun as NaN, with guard words around it.
class Buffer {
 public:
  Buffer(DataType type, int64_t count);
  static Buffer Of(DataType type, std::span<const float> values);

  void* data() { return bytes_.data() + kGuard; }
  float* floats() { return static_cast<float*>(data()); }
  DataType type() const { return type_; }
  std::vector<float> values() const;
  bool guards_intact() const;

 private:
  static constexpr int64_t kGuard = 64;
  DataType type_;
  int64_t count_;
  std::vector<uint8_t> bytes_;
};

// Standard normal values times `scale` plus `shift`.
std::vector<float> Normal(std::mt19937& random, int64_t count, float scale = 1, float shift = 0);

std::unique_ptr<KernelContext> MakeContext(const Operations& operations, int threads);

// [0, a, a + b, ...]
std::vector<int64_t> Offsets(std::initializer_list<int64_t> lengths);

}  // namespace lion::testing
