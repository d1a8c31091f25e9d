#include "kernels/cuda/vision.h"

#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"

namespace lion::cuda {
namespace {

// The image of a patch: images' first patches ascend.
__device__ __forceinline__ int FindImage(const DevicePatchImage* images, int count, int64_t patch) {
  int low = 0, high = count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (images[middle].first_patch <= patch ? low : high) = middle;
  }
  return low;
}

struct ExtractKernelArgs {
  const DevicePatchImage* images;
  int image_count;
  int size;
  float mean[3], std[3];
  void* patches;
};

// A patch to a block.
template <typename T>
__global__ void __launch_bounds__(kThreads) ExtractPatchesKernel(const ExtractKernelArgs a) {
  const int64_t patch = blockIdx.x;
  const DevicePatchImage& entry = a.images[FindImage(a.images, a.image_count, patch)];
  const PatchImage& image = entry.image;
  const int64_t inside = patch - entry.first_patch;
  const int64_t top = inside / image.columns * a.size, left = inside % image.columns * a.size;
  const int square = a.size * a.size;
  T* const out = static_cast<T*>(a.patches) + patch * 3 * square;
  for (int i = static_cast<int>(threadIdx.x); i < 3 * square; i += kThreads) {
    const int channel = i / square;
    const int64_t y = top + i % square / a.size, x = left + i % a.size;
    const int64_t planar = (channel * image.height + y) * image.width + x;
    float value;
    if (image.layout == PixelLayout::kPlanarFloat32) {
      value = static_cast<const float*>(image.pixels)[planar];
    } else {
      const int64_t at = image.layout == PixelLayout::kPlanarUint8 ? planar : (y * image.width + x) * 3 + channel;
      // float32 in this order: the training recipe's own arithmetic.
      value = static_cast<float>(static_cast<const uint8_t*>(image.pixels)[at]) / 255.0f;
      value = (value - a.mean[channel]) / a.std[channel];
    }
    Assign(out[i], value);
  }
}

struct PlaceKernelArgs {
  const DevicePatchImage* images;
  int image_count;
  int width;
  const float* projections;
  const float* cls_token;
  const float* positions;
  int64_t grid;
  float* tokens;
};

// Bicubic interpolation (a = -0.75) of `in` cells at cell `i` of `out`: which cell tap t, from 0 to 3, takes, edges
// being clamped, and how much of it.
__device__ __forceinline__ float CubicTap(int64_t i, int64_t in, int64_t out, int t, int& cell) {
  constexpr double kA = -0.75;
  const double centre = (static_cast<double>(i) + 0.5) * static_cast<double>(in) / static_cast<double>(out) - 0.5;
  const int64_t at = static_cast<int64_t>(floor(centre)) + t - 1;
  const double x = fabs(centre - static_cast<double>(at));
  cell = static_cast<int>(at < 0 ? 0 : at >= in ? in - 1 : at);
  const double near = ((kA + 2) * x - (kA + 3)) * x * x + 1, far = ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA;
  return static_cast<float>(x <= 1 ? near : x < 2 ? far : 0);
}

inline constexpr int kPlaceSharedBytes = SharedBytes<float>(8) + SharedBytes<int>(8);

// The first blocks have the class token of an image each, those behind them a patch each.
__global__ void __launch_bounds__(kThreads) PlacePatchesKernel(const PlaceKernelArgs a) {
  SharedMemory memory = SharedMemory::Of<kPlaceSharedBytes>();
  const auto weights = memory.Take<float>(8);  // rows, then columns
  const auto cells = memory.Take<int>(8);
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t patch = static_cast<int64_t>(blockIdx.x) - a.image_count;
  if (patch < 0) {
    const int64_t image = blockIdx.x;
    float* const out = a.tokens + (a.images[image].first_patch + image) * a.width;
    for (int n = thread; n < a.width; n += kThreads) {
      out[n] = a.cls_token[n] + (a.positions == nullptr ? 0.0f : a.positions[n]);
    }
    return;
  }
  const int image = FindImage(a.images, a.image_count, patch);
  const int64_t rows = a.images[image].image.rows, columns = a.images[image].image.columns;
  const int64_t inside = patch - a.images[image].first_patch;
  const int64_t row = inside / columns, column = inside % columns;
  const float* const in = a.projections + patch * a.width;
  float* const out = a.tokens + (patch + image + 1) * a.width;
  if (a.positions == nullptr) {
    for (int n = thread; n < a.width; n += kThreads) out[n] = in[n];
    return;
  }
  const float* const grid = a.positions + a.width;  // behind the class token's
  if (rows == a.grid && columns == a.grid) {
    for (int n = thread; n < a.width; n += kThreads) out[n] = in[n] + grid[inside * a.width + n];
    return;
  }
  if (thread < 8) {
    int cell;
    weights[thread] = CubicTap(thread < 4 ? row : column, a.grid, thread < 4 ? rows : columns, thread % 4, cell);
    cells[thread] = cell;
  }
  __syncthreads();
  for (int n = thread; n < a.width; n += kThreads) {
    float sum = in[n];
    for (int i = 0; i < 4; ++i) {
      float line = 0;
      for (int j = 0; j < 4; ++j) line += weights[4 + j] * grid[(cells[i] * a.grid + cells[4 + j]) * a.width + n];
      sum += weights[i] * line;
    }
    out[n] = sum;
  }
}

}  // namespace

LaunchResult ExtractPatches(const ExtractPatchesArgs& args, Stream stream) {
  ExtractKernelArgs kernel{args.images, static_cast<int>(args.image_count), static_cast<int>(args.patch_size), {}, {},
                           args.patches};
  for (int channel = 0; channel < 3; ++channel) {
    kernel.mean[channel] = args.mean[channel];
    kernel.std[channel] = args.std[channel];
  }
  return Dispatch(args.type, [&]<typename T>() {
    return Launch("ExtractPatches", &ExtractPatchesKernel<T>, {args.patch_count, 1, 1, kThreads, 0}, stream, kernel);
  });
}

LaunchResult PlacePatches(const PlacePatchesArgs& args, Stream stream) {
  const PlaceKernelArgs kernel{args.images,
                               static_cast<int>(args.image_count),
                               static_cast<int>(args.width),
                               args.projections,
                               args.cls_token,
                               args.positions,
                               args.grid,
                               args.tokens};
  return Launch("PlacePatches", &PlacePatchesKernel,
                {args.patch_count + args.image_count, 1, 1, kThreads, kPlaceSharedBytes}, stream, kernel);
}

}  // namespace lion::cuda
