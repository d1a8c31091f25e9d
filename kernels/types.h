// Types that every kernel contract shares.
#pragma once

#include <bit>
#include <cstdint>

namespace lion {

// Of activations between kernels. Sums, norms, softmax, states and decays are float32 or better in either
// (docs/mathematics.md, section 6).
enum class DataType : uint8_t { kFloat32, kBFloat16 };
constexpr int64_t DataTypeSize(DataType type) { return type == DataType::kFloat32 ? 4 : 2; }

// phi of docs/mathematics.md, section 2.
enum class FeatureMap : uint8_t {
  kIdentity,
  kEluPlusOne,      // elu(x) + 1
  kNormalizedSilu,  // (silu(x) + 0.5) / its L2 norm over the head width
};

// The three equivalent forms of one mixer (section 1).
enum class MixerForm : uint8_t { kAuto, kChunk, kRecurrent, kAttention };

enum class PixelLayout : uint8_t {
  kInterleavedUint8,  // [h, w, 3], 0..255, normalised by the kernel
  kPlanarUint8,       // [3, h, w], 0..255, normalised by the kernel
  kPlanarFloat32,     // [3, h, w], already normalised
};

// bfloat16 bits, rounded to nearest even; NaN stays NaN.
inline uint16_t ToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
inline float FromBFloat16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

}  // namespace lion
