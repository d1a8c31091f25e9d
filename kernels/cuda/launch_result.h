// What every launcher of kernels/cuda takes and gives. Launchers allocate nothing, wait for nothing and may be captured
// into a graph. Pointers are device memory unless said otherwise, aligned to 16 bytes (as cudaMalloc and the
// workspace's regions are); it must stay until the stream has run the kernel. From any thread; two calls need arrays of
// their own.
#pragma once

struct CUstream_st;

namespace lion::cuda {

// cudaStream_t, of the calling thread's current device; nullptr is its default stream. Without nvcc it is not looked
// at.
using Stream = CUstream_st*;

// Not absl::Status: its header would cost nvcc more than all else in a file.
struct [[nodiscard]] LaunchResult {
  const char* fault = nullptr;  // what went wrong, until the thread's next launch; nullptr: the kernel is on its way
  bool ok() const { return fault == nullptr; }
};

}  // namespace lion::cuda
