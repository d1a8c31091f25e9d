#include "benchmarks/kernels/peak.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "kernels/cpu/thread_pool.h"

namespace lion {
namespace {

// Large enough that moving the operands costs next to nothing, small enough to take milliseconds.
constexpr int64_t kSide = 1024;
constexpr int kRounds = 16;

// A product of its own, for one thread.
class SquareProduct {
 public:
  explicit SquareProduct(DataType type) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using Tag = dnnl::memory::format_tag;
    const auto element = type == DataType::kFloat32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
    const auto side = [](dnnl::memory::data_type of, Tag tag) { return dnnl::memory::desc({kSide, kSide}, of, tag); };
    const auto a = side(element, Tag::any), b = side(element, Tag::any);
    const auto c = side(dnnl::memory::data_type::f32, Tag::ab);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc description(engine_, a, b, c);
#else
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c), engine_);
#endif
    product_ = dnnl::matmul(description);
    arguments_ = {{DNNL_ARG_SRC, Filled(description.src_desc(), type)},
                  {DNNL_ARG_WEIGHTS, Filled(description.weights_desc(), type)},
                  {DNNL_ARG_DST, dnnl::memory(description.dst_desc(), engine_)}};
  }

  void Run() {
    product_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  // Zeros would be fast on some machines, and denormal numbers slow.
  dnnl::memory Filled(const dnnl::memory::desc& description, DataType type) {
    dnnl::memory memory(description, engine_);
    const size_t count = description.get_size() / DataTypeSize(type);
    for (size_t i = 0; i < count; ++i) {
      const float value = 0.5f + static_cast<float>(i % 97) / 128;
      if (type == DataType::kFloat32) {
        static_cast<float*>(memory.get_data_handle())[i] = value;
      } else {
        static_cast<uint16_t*>(memory.get_data_handle())[i] = ToBFloat16(value);
      }
    }
    return memory;
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul product_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

double Measure(DataType type, int threads) {
  cpu::ThreadPool pool(threads);
  std::vector<std::unique_ptr<SquareProduct>> products(threads);
  try {
    for (auto& product : products) product = std::make_unique<SquareProduct>(type);
  } catch (const dnnl::error&) {
    return 0;
  }
  // Each thread's best time by itself: on a machine shared with others they seldom all have a good one at once.
  std::vector<double> best(threads, std::numeric_limits<double>::infinity());
  for (int round = 0; round < kRounds; ++round) {
    pool.ParallelFor(threads, [&](int64_t task, int) {
      const auto begin = std::chrono::steady_clock::now();
      products[task]->Run();
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      best[task] = std::min(best[task], seconds.count());
    });
  }
  double flops = 0;
  for (const double seconds : best) flops += 2.0 * kSide * kSide * kSide / seconds;
  return flops;
}

}  // namespace

double PeakFlops(DataType type, int threads) {
  static auto* const peaks = new std::map<DataType, double>();
  const auto [found, is_new] = peaks->emplace(type, 0);
  if (is_new) found->second = Measure(type, threads);
  return found->second;
}

}  // namespace lion
