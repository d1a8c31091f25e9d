// kernels_benchmark [--isa NAME] [--threads N] [--warm] and Google Benchmark's own flags. See benchmarks/README.md.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/kernels/measure.h"
#include "benchmarks/kernels/sizes.h"

namespace lion {
namespace {

int Fail(const std::string& why) {
  std::fprintf(stderr, "kernels_benchmark: %s\n", why.c_str());
  return 2;
}

int Main(int argc, char** argv) {
  // What the user gives comes later and holds. A tenth of a second of cold runs takes about ten times as long.
  std::string short_time = "--benchmark_min_time=0.1";
  std::vector<char*> arguments = {argv[0], short_time.data()};
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());

  std::string isa = "auto";
  Bench bench;
  bench.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    const char* value = i + 1 < count ? arguments[i + 1] : "";
    if (argument == "--warm") {
      bench.warm = true;
    } else if (argument == "--isa") {
      isa = value;
      ++i;
    } else if (argument == "--threads") {
      bench.threads = std::atoi(value);
      ++i;
    } else {
      return Fail("unknown argument " + argument + "; there are --isa NAME, --threads N, --warm and --benchmark_*");
    }
  }
  if (bench.threads < 1 || bench.threads > 1024) return Fail("--threads wants a number of 1 to 1024");

  const auto cpu = CpuOperations(isa);
  if (!cpu.ok()) return Fail(cpu.status().ToString());
  bench.cpu = *cpu;
  const float one = 1;
  bench.has_bfloat16 = bench.cpu->pack_linear({&one, nullptr, 1, 1, DataType::kBFloat16}).ok();
  auto context =
      bench.cpu->make_context({.threads = bench.threads, .max_tokens = 1 + kLargeGrid * kLargeGrid, .head_width = 64});
  auto reference_context = ReferenceOperations().make_context({});
  if (!context.ok() || !reference_context.ok()) return Fail("no context: " + context.status().ToString());
  bench.context = *std::move(context);
  bench.reference_context = *std::move(reference_context);
  benchmark::AddCustomContext("kernels", bench.cpu->name + ", " + std::to_string(bench.threads) + " threads, caches " +
                                             (bench.warm ? "warm" : "cold"));

  RegisterLinear(bench);
  RegisterMixer(bench);
  RegisterVision(bench);
  const size_t ran = benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  if (ran == 0) return Fail("no benchmark has a name like that");
  return bench.all_right ? 0 : 1;
}

}  // namespace
}  // namespace lion

int main(int argc, char** argv) { return lion::Main(argc, argv); }
