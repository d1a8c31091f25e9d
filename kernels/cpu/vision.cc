#include "kernels/vision.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/status/status.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/entries.h"
#include "kernels/cpu/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vision.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/row_tiles-inl.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lion::cpu::HWY_NAMESPACE {
namespace {

// (v / 255 - mean) / std for each byte and channel, in float32 and in that order: the training recipe's own arithmetic.
struct NormalizedBytes {
  explicit NormalizedBytes(const PatchEmbedArgs& args) {
    for (int channel = 0; channel < 3; ++channel) {
      for (int v = 0; v < 256; ++v) {
        value[channel][v] = (static_cast<float>(v) / 255.0f - args.mean[channel]) / args.std[channel];
      }
    }
  }
  float value[3][256];
};

// One patch as a row [3, P, P].
template <typename T>
void ExtractPatch(const PatchImage& image, const NormalizedBytes& bytes, int64_t size, int64_t row, int64_t column,
                  float* line, T* out) {
  for (int64_t channel = 0; channel < 3; ++channel) {
    for (int64_t i = 0; i < size; ++i, out += size) {
      const int64_t y = row * size + i, x = column * size;
      const int64_t planar = (channel * image.height + y) * image.width + x;
      if (image.layout == PixelLayout::kPlanarFloat32) {
        // The bytes of a message may stand anywhere.
        std::memcpy(line, static_cast<const std::byte*>(image.pixels) + planar * 4, size * sizeof(float));
      } else {
        const bool interleaved = image.layout == PixelLayout::kInterleavedUint8;
        const uint8_t* pixel = static_cast<const uint8_t*>(image.pixels);
        pixel += interleaved ? (y * image.width + x) * 3 + channel : planar;
        const int64_t step = interleaved ? 3 : 1;
        for (int64_t j = 0; j < size; ++j) line[j] = bytes.value[channel][pixel[j * step]];
      }
      ConvertRow(line, size, out);
    }
  }
}

// The four taps of bicubic interpolation (a = -0.75) of a grid of `in` cells at cell `i` of `out`; edges are clamped.
struct Taps {
  int64_t cell[4];
  float weight[4];
};
Taps CubicTaps(int64_t i, int64_t in, int64_t out) {
  const double a = -0.75, centre = (static_cast<double>(i) + 0.5) * in / out - 0.5, base = std::floor(centre);
  Taps taps;
  for (int t = 0; t < 4; ++t) {
    const int64_t cell = static_cast<int64_t>(base) + t - 1;
    const double x = std::abs(centre - static_cast<double>(cell));
    const double weight = x <= 1  ? ((a + 2) * x - (a + 3)) * x * x + 1
                          : x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
                                  : 0;
    taps.cell[t] = std::clamp<int64_t>(cell, 0, in - 1);
    taps.weight[t] = static_cast<float>(weight);
  }
  return taps;
}

// out += the position embedding of patch (row, column).
void AddPosition(const PatchEmbedArgs& args, const PatchImage& image, int64_t row, int64_t column, int64_t width,
                 float* out) {
  const float* grid = args.positions + width;  // behind the class token's
  if (image.rows == args.grid && image.columns == args.grid) {
    const float* position = grid + (row * args.grid + column) * width;
    ForEach(width, [&](auto d, int64_t n) HWY_ATTR {
      hn::StoreU(hn::Add(hn::LoadU(d, out + n), hn::LoadU(d, position + n)), d, out + n);
    });
    return;
  }
  const Taps rows = CubicTaps(row, args.grid, image.rows), columns = CubicTaps(column, args.grid, image.columns);
  ForEach(width, [&](auto d, int64_t n) HWY_ATTR {
    auto sum = hn::LoadU(d, out + n);
    for (int i = 0; i < 4; ++i) {
      auto line = hn::Zero(d);
      for (int j = 0; j < 4; ++j) {
        const float* position = grid + (rows.cell[i] * args.grid + columns.cell[j]) * width;
        line = hn::MulAdd(hn::Set(d, columns.weight[j]), hn::LoadU(d, position + n), line);
      }
      sum = hn::MulAdd(hn::Set(d, rows.weight[i]), line, sum);
    }
    hn::StoreU(sum, d, out + n);
  });
}

void EmbedClassToken(const PatchEmbedArgs& args, int64_t width, float* out) {
  ForEach(width, [&](auto d, int64_t n) HWY_ATTR {
    auto value = hn::LoadU(d, args.cls_token + n);
    if (args.positions != nullptr) value = hn::Add(value, hn::LoadU(d, args.positions + n));
    hn::StoreU(value, d, out + n);
  });
}

// Patches are cut into tiles per image; tile_ends[i] counts the tiles of the images up to the i-th.
template <typename T>
absl::Status PatchEmbedOf(CpuContext& context, const PatchEmbedArgs& args) {
  const Matmul& matmul = static_cast<const Matmul&>(*args.projection);
  const int64_t width = matmul.outputs(), inputs = matmul.inputs(), size = args.patch_size;
  const NormalizedBytes bytes(args);
  int64_t* const tile_ends =
      reinterpret_cast<int64_t*>(context.ReserveShared(static_cast<int64_t>(args.images.size() * sizeof(int64_t))));
  int64_t tiles = 0;
  for (size_t i = 0; i < args.images.size(); ++i) {
    tiles += (args.images[i].rows * args.images[i].columns + kRowTile - 1) / kRowTile;
    tile_ends[i] = tiles;
  }
  return ForEachTask(context, tiles, [&](int64_t tile, int thread) {
    const size_t index = std::upper_bound(tile_ends, tile_ends + args.images.size(), tile) - tile_ends;
    const PatchImage& image = args.images[index];
    const int64_t first = (tile - (index == 0 ? 0 : tile_ends[index - 1])) * kRowTile;
    const int64_t rows = std::min(kRowTile, image.rows * image.columns - first);
    float* tokens = args.tokens + args.offsets[index] * width;
    if (first == 0) EmbedClassToken(args, width, tokens);
    TileScratch<T> scratch(context, thread, matmul);
    for (int64_t r = 0; r < rows; ++r) {
      // The output buffer is free until the product: it holds the line of pixels being converted.
      ExtractPatch(image, bytes, size, (first + r) / image.columns, (first + r) % image.columns, scratch.output,
                   scratch.input + r * inputs);
    }
    if (absl::Status status = scratch.Run(matmul, rows); !status.ok()) return status;
    for (int64_t r = 0; r < rows; ++r) {
      float* out = tokens + (1 + first + r) * width;
      std::copy_n(scratch.output + r * width, width, out);
      if (args.positions != nullptr) {
        AddPosition(args, image, (first + r) / image.columns, (first + r) % image.columns, width, out);
      }
    }
    return absl::OkStatus();
  });
}

absl::Status PatchEmbed(KernelContext& context, const PatchEmbedArgs& args) {
  return static_cast<const Matmul&>(*args.projection).compute_type() == DataType::kFloat32
             ? PatchEmbedOf<float>(Cpu(context), args)
             : PatchEmbedOf<uint16_t>(Cpu(context), args);
}

// Sequences are pooled in segments of fixed length, whose sums are then added up in order.
constexpr int64_t kPoolSegment = 512;

void PoolSegment(const PoolArgs& args, int64_t first, int64_t last, float* row, double* sum) {
  const int64_t width = args.width;
  std::fill_n(sum, width, args.kind == PoolKind::kMax ? -HUGE_VAL : 0.0);
  for (int64_t token = first; token < last; ++token) {
    const float* x = args.x + token * width;
    if (args.norm.gamma != nullptr) {
      NormRow(x, width, args.norm, row);
      x = row;
    }
    if (args.kind == PoolKind::kMax) {
      // A NaN must come through.
      for (int64_t n = 0; n < width; ++n) sum[n] = sum[n] >= x[n] || std::isnan(sum[n]) ? sum[n] : x[n];
    } else {
      for (int64_t n = 0; n < width; ++n) sum[n] += x[n];
    }
  }
}

absl::Status Pool(KernelContext& kernel_context, const PoolArgs& args) {
  CpuContext& context = Cpu(kernel_context);
  const int64_t width = args.width, sequences = static_cast<int64_t>(args.offsets.size()) - 1;
  const auto range = [&](int64_t s) {
    const int64_t begin = args.offsets[s], end = args.offsets[s + 1];
    return std::pair<int64_t, int64_t>(args.kind == PoolKind::kLast ? end - 1 : begin,
                                       args.kind == PoolKind::kFirst ? begin + 1 : end);
  };
  int64_t segments = 0;
  for (int64_t s = 0; s < sequences; ++s) {
    segments += (range(s).second - range(s).first + kPoolSegment - 1) / kPoolSegment;
  }
  ScratchPlan plan;
  plan.Add<double>(segments * width);
  plan.Add<int64_t>(segments);
  plan.Add<int64_t>(segments);
  plan.Use(context.ReserveShared(plan.bytes()));
  double* const sums = plan.Take<double>(segments * width);
  int64_t *const firsts = plan.Take<int64_t>(segments), *const lasts = plan.Take<int64_t>(segments);
  int64_t segment = 0;
  for (int64_t s = 0; s < sequences; ++s) {
    const auto [begin, end] = range(s);
    for (int64_t first = begin; first < end; first += kPoolSegment, ++segment) {
      firsts[segment] = first;
      lasts[segment] = std::min(first + kPoolSegment, end);
    }
  }
  context.pool().ParallelFor(segments, [&](int64_t i, int thread) {
    float* row = reinterpret_cast<float*>(context.Reserve(thread, width * static_cast<int64_t>(sizeof(float))));
    PoolSegment(args, firsts[i], lasts[i], row, sums + i * width);
  });
  segment = 0;
  for (int64_t s = 0; s < sequences; ++s) {
    const auto [begin, end] = range(s);
    double* total = sums + segment * width;
    for (int64_t first = begin + kPoolSegment; first < end; first += kPoolSegment) {
      const double* next = sums + ++segment * width;
      for (int64_t n = 0; n < width; ++n) {
        if (args.kind != PoolKind::kMax)
          total[n] += next[n];
        else
          total[n] = total[n] >= next[n] || std::isnan(total[n]) ? total[n] : next[n];
      }
    }
    ++segment;
    const double count = args.kind == PoolKind::kMean ? static_cast<double>(end - begin) : 1.0;
    for (int64_t n = 0; n < width; ++n) args.output[s * width + n] = static_cast<float>(total[n] / count);
  }
  return absl::OkStatus();
}

PatchEmbedFn GetPatchEmbed() { return &PatchEmbed; }
PoolFn GetPool() { return &Pool; }

}  // namespace
}  // namespace lion::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lion::cpu::LION_CPU_EXPORTS {
HWY_EXPORT(GetPatchEmbed);
HWY_EXPORT(GetPool);
void ExportVision(Operations& table) {
  table.patch_embed = HWY_DYNAMIC_DISPATCH(GetPatchEmbed)();
  table.pool = HWY_DYNAMIC_DISPATCH(GetPool)();
}
}  // namespace lion::cpu::LION_CPU_EXPORTS
#endif
