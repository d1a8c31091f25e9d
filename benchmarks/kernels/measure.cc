#include "benchmarks/kernels/measure.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>

#include "benchmarks/kernels/peak.h"
#include "kernels/cpu/context.h"

namespace lion {
namespace {

// Reads what is larger than all caches together, each thread its part, so that nothing of the operands is left in them.
void EmptyCaches(Bench& bench) {
  constexpr int64_t kLine = 64;
  static const int64_t bytes = [] {
    const auto largest = static_cast<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE));
    return 2 * std::clamp<int64_t>(largest, int64_t{16} << 20, int64_t{256} << 20);
  }();
  static auto* const other = new std::vector<uint8_t>(bytes, 1);
  const int64_t part = bytes / bench.threads;
  cpu::Cpu(*bench.context).pool().ParallelFor(bench.threads, [&](int64_t task, int) {
    const uint8_t* from = other->data() + task * part;
    uint64_t sum = 0;
    for (int64_t i = 0; i < part; i += kLine) sum += from[i];
    benchmark::DoNotOptimize(sum);
  });
}

absl::Status RunOnce(const KernelCase& kernel) {
  if (kernel.prepare) kernel.prepare();
  return kernel.run();
}

void Run(Bench& bench, benchmark::State& state, const std::function<KernelCase(Bench&)>& make) {
  const KernelCase kernel = make(bench);
  const auto refuse = [&](const std::string& why) {
    bench.all_right = false;
    state.SkipWithError(("no speed: " + why).c_str());
  };
  if (const absl::Status status = RunOnce(kernel); !status.ok()) return refuse(status.ToString());
  if (const std::string mistake = kernel.mistake(); !mistake.empty()) return refuse(mistake);
  double seconds = 0;
  for (auto iteration : state) {
    if (kernel.prepare) kernel.prepare();
    if (!bench.warm) EmptyCaches(bench);
    const auto begin = std::chrono::steady_clock::now();
    const absl::Status status = kernel.run();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (!status.ok()) return refuse(status.ToString());
    state.SetIterationTime(took.count());
    seconds += took.count();
  }
  const auto runs = static_cast<double>(state.iterations());
  state.SetItemsProcessed(static_cast<int64_t>(runs * kernel.tokens));
  if (kernel.bytes > 0) state.SetBytesProcessed(static_cast<int64_t>(runs * kernel.bytes));
  if (kernel.flops == 0) return;
  state.counters["GFLOP/s"] = kernel.flops * runs / seconds / 1e9;
  const double peak = PeakFlops(kernel.product, bench.threads);
  if (peak > 0) state.counters["%peak"] = 100 * kernel.flops * runs / seconds / peak;
}

}  // namespace

std::vector<DataType> Bench::types() const {
  if (has_bfloat16) return {DataType::kFloat32, DataType::kBFloat16};
  return {DataType::kFloat32};
}

std::string Bench::Suffix(DataType type) const {
  return std::string(type == DataType::kFloat32 ? "f32" : "bf16") + (warm ? "/warm" : "");
}

void Register(Bench& bench, const std::string& name, std::function<KernelCase(Bench&)> make) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [&bench, make = std::move(make)](benchmark::State& state) { Run(bench, state, make); })
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

std::string Compare(DataType type, std::span<const float> got, std::span<const float> want) {
  const double bound = type == DataType::kFloat32 ? 1e-5 : 2e-2;
  if (got.size() != want.size()) return "the result has another size";
  double difference = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i])) return "value " + std::to_string(i) + " is not finite";
    difference += (static_cast<double>(got[i]) - want[i]) * (static_cast<double>(got[i]) - want[i]);
    size += static_cast<double>(want[i]) * want[i];
  }
  const double error = std::sqrt(difference / size);
  if (error <= bound) return "";
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "the relative error is %.2g, over %.2g", error, bound);
  return text.data();
}

Array::Array(DataType type, int64_t count) : type_(type), count_(count) {
  constexpr std::align_val_t kAlignment{64};
  const size_t size = count * DataTypeSize(type);
  bytes_.reset(static_cast<std::byte*>(::operator new[](size, kAlignment)),
               [](std::byte* bytes) { ::operator delete[](bytes, kAlignment); });
  std::memset(data(), 0xff, size);
}

Array::Array(DataType type, std::span<const float> values) : Array(type, static_cast<int64_t>(values.size())) {
  Set(values);
}

void Array::Set(std::span<const float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (type_ == DataType::kFloat32) {
      floats()[i] = values[i];
    } else {
      static_cast<uint16_t*>(data())[i] = ToBFloat16(values[i]);
    }
  }
}

float Array::value(int64_t index) const {
  return type_ == DataType::kFloat32 ? floats()[index] : FromBFloat16(static_cast<const uint16_t*>(data())[index]);
}

std::vector<float> Array::values() const {
  std::vector<float> values(count_);
  for (int64_t i = 0; i < count_; ++i) values[i] = value(i);
  return values;
}

std::vector<float> Array::Rows(std::span<const int64_t> rows, int64_t width) const {
  std::vector<float> values;
  for (const int64_t row : rows) {
    for (int64_t column = 0; column < width; ++column) values.push_back(value(row * width + column));
  }
  return values;
}

std::vector<float> Normal(int64_t count, float deviation, float mean) {
  static auto* const random = new std::mt19937(1);
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = normal(*random);
  return values;
}

std::vector<int64_t> SomeRows(int64_t rows) {
  std::vector<int64_t> some;
  for (const int64_t row : {int64_t{0}, int64_t{1}, int64_t{63}, int64_t{64}, int64_t{65}, rows / 2, rows - 65,
                            rows - 64, rows - 2, rows - 1}) {
    if (row >= 0 && row < rows) some.push_back(row);
  }
  std::sort(some.begin(), some.end());
  some.erase(std::unique(some.begin(), some.end()), some.end());
  return some;
}

}  // namespace lion
