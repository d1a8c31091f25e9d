// Launches a kernel: on the stream under nvcc, at once and on the calling thread under the host compiler. Every kernel
// takes one struct of arguments by value.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/cuda/device.h"
#include "kernels/cuda/launch_result.h"

namespace lion::cuda {

struct Grid {
  int64_t x = 1, y = 1, z = 1;  // blocks; a grid of none is not launched
  int threads = 128;            // of a block; a multiple of 32
  int shared_bytes = 0;
};

// Null: `grid` can be launched, as far as that does not depend on the device. CUDA itself takes 32 bits of each.
inline const char* GridFault(const char* name, const Grid& grid) {
  constexpr int64_t kMaxX = (int64_t{1} << 31) - 1, kMaxYZ = 65535;
  if (grid.x >= 0 && grid.y >= 0 && grid.z >= 0 && grid.x <= kMaxX && grid.y <= kMaxYZ && grid.z <= kMaxYZ)
    return nullptr;
  thread_local std::string fault;
  fault = std::string(name) + ": got " + std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " +
          std::to_string(grid.z) + " blocks, the most are 2147483647 x 65535 x 65535: too many rows or sequences";
  return fault.c_str();
}

#ifdef __CUDACC__

template <typename Args>
LaunchResult Launch(const char* name, void (*kernel)(Args), const Grid& grid, Stream stream, const Args& args) {
  if (const char* const fault = GridFault(name, grid)) return {fault};
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return {};
  const void* const function = reinterpret_cast<const void*>(kernel);
  // What a block may have without asking.
  constexpr int kDefaultSharedBytes = 48 << 10;
  cudaError_t error = cudaSuccess;
  if (grid.shared_bytes > kDefaultSharedBytes) {
    error = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, grid.shared_bytes);
  }
  if (error == cudaSuccess) {
    Args copy = args;
    void* pointers[] = {&copy};
    const dim3 blocks(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z));
    error = cudaLaunchKernel(function, blocks, dim3(static_cast<unsigned>(grid.threads)), pointers,
                             static_cast<size_t>(grid.shared_bytes), stream);
  }
  if (error == cudaSuccess) return {};
  thread_local std::string fault;
  fault = std::string(name) + ": " + cudaGetErrorName(error) + ": " + cudaGetErrorString(error);
  return {fault.c_str()};
}

#else

template <typename Args>
LaunchResult Launch(const char* name, void (*kernel)(Args), const Grid& grid, Stream, const Args& args) {
  if (const char* const fault = GridFault(name, grid)) return {fault};
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return {};
  const emulation::GridSize size{
      {static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z)},
      grid.threads,
      grid.shared_bytes};
  return {emulation::RunGrid(name, size, [&] { kernel(args); })};
}

#endif

}  // namespace lion::cuda
