// How a kernel is measured: checked against kernels/reference first, with cold caches, beside the machine's peak.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/operations.h"

namespace lion {

// What all kernels of one run of the program share.
struct Bench {
  const Operations* cpu = nullptr;
  int threads = 1;
  bool warm = false;  // operands may be in the caches from the run before
  bool has_bfloat16 = true;
  std::unique_ptr<KernelContext> context;            // of `cpu`
  std::unique_ptr<KernelContext> reference_context;  // of ReferenceOperations()
  bool all_right = true;                             // no kernel's result was wrong

  // Rows of these types are benchmarked: float32, and bfloat16 where the machine has its products.
  std::vector<DataType> types() const;
  // "TYPE", and "/warm" when it is.
  std::string Suffix(DataType type) const;
};

// One kernel with its operands, which its functions own. Made when its benchmark runs, so that only what is asked for
// takes memory.
struct KernelCase {
  DataType product = DataType::kFloat32;  // of the operands multiplied: whose peak it is held against
  double tokens = 0;                      // a run's items
  double flops = 0;                       // useful operations of a run; 0: memory decides, bytes are counted
  double bytes = 0;                       // read and written by a run; 0: not counted
  std::function<void()> prepare;          // before each run, not timed; or empty
  std::function<absl::Status()> run;      // what is timed
  std::function<std::string()> mistake;   // after a run: empty when the result is right, else what is wrong
};

// Registers a benchmark; `make` is called when it runs.
void Register(Bench& bench, const std::string& name, std::function<KernelCase(Bench&)> make);

// Empty when `got` is finite and near `want` as docs/mathematics.md, section 6 asks of `type`; else a sentence.
std::string Compare(DataType type, std::span<const float> got, std::span<const float> want);

// An array of float32 or bfloat16 values, 64-byte aligned, that lives as long as the last of its copies.
class Array {
 public:
  Array(DataType type, int64_t count);  // NaN
  Array(DataType type, std::span<const float> values);
  void* data() const { return bytes_.get(); }
  float* floats() const { return static_cast<float*>(data()); }
  float value(int64_t index) const;
  std::vector<float> values() const;
  void Set(std::span<const float> values);
  // Rows `rows` of an array of `width` columns.
  std::vector<float> Rows(std::span<const int64_t> rows, int64_t width) const;

 private:
  DataType type_;
  int64_t count_;
  std::shared_ptr<std::byte[]> bytes_;
};

std::vector<float> Normal(int64_t count, float deviation, float mean = 0);

// Rows of a batch that the slow reference computes: the ends of row tiles, and some between.
std::vector<int64_t> SomeRows(int64_t rows);

// The benchmarks of each kind, one file each.
void RegisterLinear(Bench& bench);
void RegisterMixer(Bench& bench);
void RegisterVision(Bench& bench);

}  // namespace lion
