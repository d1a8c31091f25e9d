// Operations of a whole warp on the host: device.h says what their fragments are.
#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/emulated/device.h"
#include "kernels/types.h"

namespace lion::cuda::emulation {
namespace {

template <int kParts>
struct MmaOperands {
  float c[4];
  uint32_t a[kParts][4];
  uint32_t b[kParts][2];
};

float Half(uint32_t packed, int which) { return FromBFloat16(static_cast<uint16_t>(packed >> (16 * which))); }

// c += a b. These sums are most of the tests' time: the compiler makes vectors of the columns, if sanitizers let it.
__attribute__((no_sanitize("address", "undefined"))) void AddProduct(const float (&a)[16][16], const float (&b)[16][8],
                                                                     float (&c)[16][8]) {
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) c[row][column] += a[row][k] * b[k][column];
    }
  }
}

// c += a b, as one product or as the six largest of their parts.
template <int kParts>
void Mma(WarpExchange& warp) {
  static_assert(sizeof(MmaOperands<kParts>) <= WarpExchange::kBytes);
  float a[kParts][16][16], b[kParts][16][8], c[16][8];
  const auto c_at = [&](int lane, int i) -> float& { return c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2]; };
  for (int lane = 0; lane < 32; ++lane) {
    MmaOperands<kParts> in;
    std::memcpy(&in, warp.in[lane], sizeof(in));
    const int g = lane / 4, t = lane % 4;
    for (int part = 0; part < kParts; ++part) {
      for (int half = 0; half < 2; ++half) {
        for (int r = 0; r < 4; ++r) a[part][g + r % 2 * 8][2 * t + r / 2 * 8 + half] = Half(in.a[part][r], half);
        for (int r = 0; r < 2; ++r) b[part][2 * t + r * 8 + half][g] = Half(in.b[part][r], half);
      }
    }
    for (int i = 0; i < 4; ++i) c_at(lane, i) = in.c[i];
  }
  const auto add = [&](int a_part, int b_part) { AddProduct(a[a_part], b[b_part], c); };
  if constexpr (kParts == 1) {
    add(0, 0);
  } else {
    add(2, 0), add(0, 2), add(1, 1), add(1, 0), add(0, 1), add(0, 0);
  }
  for (int lane = 0; lane < 32; ++lane) {
    const float out[4] = {c_at(lane, 0), c_at(lane, 1), c_at(lane, 2), c_at(lane, 3)};
    std::memcpy(warp.out[lane], out, sizeof(out));
  }
}

template <int kParts>
void MeetForMma(const char* what, float (&c)[4], const uint32_t* a, const uint32_t* b) {
  MmaOperands<kParts> operands;
  std::memcpy(operands.c, c, sizeof(c));
  std::memcpy(operands.a, a, sizeof(operands.a));
  std::memcpy(operands.b, b, sizeof(operands.b));
  const WarpExchange& warp = MeetWarp(what, &operands, sizeof(operands), &Mma<kParts>);
  std::memcpy(c, warp.out[threadIdx.x % 32], sizeof(c));
}

void TakeMatrices(WarpExchange& warp, bool transposed) {
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int m = 0; m < 4; ++m) {
      for (int half = 0; half < 2; ++half) {
        const int row = transposed ? 2 * t + half : g, column = transposed ? g : 2 * t + half;
        std::memcpy(warp.out[lane] + m * 4 + half * 2, warp.in[m * 8 + row] + column * 2, 2);
      }
    }
  }
}

}  // namespace

uint32_t PackBFloat16(float low, float high) { return ToBFloat16(low) | static_cast<uint32_t>(ToBFloat16(high)) << 16; }

void MmaBFloat16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  MeetForMma<1>("mma.m16n8k16", c, a, b);
}
void MmaThreeParts(float (&c)[4], const uint32_t (&a)[3][4], const uint32_t (&b)[3][2]) {
  MeetForMma<3>("six mma.m16n8k16", c, a[0], b[0]);
}

void LoadMatrixRows(uint32_t (&out)[4], const uint4& row, bool transposed) {
  const WarpExchange& warp =
      transposed ? MeetWarp("ldmatrix.trans", &row, sizeof(row), [](WarpExchange& w) { TakeMatrices(w, true); })
                 : MeetWarp("ldmatrix", &row, sizeof(row), [](WarpExchange& w) { TakeMatrices(w, false); });
  std::memcpy(out, warp.out[threadIdx.x % 32], sizeof(out));
}

}  // namespace lion::cuda::emulation
