// The two ends of a vision encoder on the GPU: pixels to rows of patches, their projections to tokens; tokens to one
// vector.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kernels/cuda/launch_result.h"
#include "kernels/vision.h"

namespace lion::cuda {

// kernels/vision.h's PatchImage in device memory; float32 pixels are aligned to 4 bytes.
struct DevicePatchImage {
  PatchImage image;
  int64_t first_patch;  // patches of the images before it
};

// patches[i] = the pixels of patch i, normalised: channel, row, column; images follow each other.
struct ExtractPatchesArgs {
  const DevicePatchImage* images = nullptr;  // [n]
  int64_t image_count = 0;                   // n
  int64_t patch_count = 0;                   // of all images
  int64_t patch_size = 0;                    // P
  std::array<float, 3> mean = {0, 0, 0};     // as in PatchEmbedArgs
  std::array<float, 3> std = {1, 1, 1};
  DataType type = DataType::kFloat32;
  void* patches = nullptr;  // [patch_count, 3 P P] of `type`
};
LaunchResult ExtractPatches(const ExtractPatchesArgs& args, Stream stream);

// tokens[0] = cls_token (+ position 0), tokens[1 + patch] = projections[patch] (+ position), for each image.
struct PlacePatchesArgs {
  const DevicePatchImage* images = nullptr;  // [n]; pixels are not looked at
  int64_t image_count = 0;
  int64_t patch_count = 0;
  int64_t width = 0;                   // D
  const float* projections = nullptr;  // [patch_count, D], bias included
  const float* cls_token = nullptr;    // [D]
  const float* positions = nullptr;    // [1 + grid * grid, D], or nullptr; resized as PatchEmbedArgs says
  int64_t grid = 0;
  float* tokens = nullptr;  // [patch_count + image_count, D]
};
LaunchResult PlacePatches(const PlacePatchesArgs& args, Stream stream);

// Device memory that Pool needs: float64 sums of parts of the sequences.
int64_t PoolWorkspaceBytes(const PoolArgs& args);
// args.offsets [n + 1] is host memory, device_offsets the same on the device; D at most kMaxNormColumns (linear.h); n
// at most 65,535. workspace is aligned to 16 bytes.
LaunchResult Pool(const PoolArgs& args, const int64_t* device_offsets, void* workspace, Stream stream);

}  // namespace lion::cuda
