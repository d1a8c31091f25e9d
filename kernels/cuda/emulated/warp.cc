// Operations of a whole warp on the host: device.h says what their fragments are.
#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/emulated/device.h"
#include "kernels/types.h"

namespace lion::cuda::emulation {
namespace {

struct MmaOperands {
  float c[4];
  uint32_t a[4];
  uint32_t b[2];
};

float Half(uint32_t packed, int which) { return FromBFloat16(static_cast<uint16_t>(packed >> (16 * which))); }

void Mma(WarpExchange& warp) {
  float a[16][16], b[16][8];
  MmaOperands lanes[32];
  for (int lane = 0; lane < 32; ++lane) {
    std::memcpy(&lanes[lane], warp.in[lane], sizeof(MmaOperands));
    const MmaOperands& in = lanes[lane];
    const int g = lane / 4, t = lane % 4;
    for (int half = 0; half < 2; ++half) {
      for (int r = 0; r < 4; ++r) a[g + r % 2 * 8][2 * t + r / 2 * 8 + half] = Half(in.a[r], half);
      for (int r = 0; r < 2; ++r) b[2 * t + r * 8 + half][g] = Half(in.b[r], half);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    float* const c = lanes[lane].c;
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      float sum = c[i];
      for (int k = 0; k < 16; ++k) sum += a[row][k] * b[k][column];
      c[i] = sum;
    }
    std::memcpy(warp.out[lane], c, sizeof(lanes[lane].c));
  }
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
  MmaOperands operands;
  std::memcpy(operands.c, c, sizeof(c));
  std::memcpy(operands.a, a, sizeof(a));
  std::memcpy(operands.b, b, sizeof(b));
  const WarpExchange& warp = MeetWarp("mma.m16n8k16", &operands, sizeof(operands), &Mma);
  std::memcpy(c, warp.out[threadIdx.x % 32], sizeof(c));
}

void LoadMatrixRows(uint32_t (&out)[4], const uint4& row, bool transposed) {
  const WarpExchange& warp =
      transposed ? MeetWarp("ldmatrix.trans", &row, sizeof(row), [](WarpExchange& w) { TakeMatrices(w, true); })
                 : MeetWarp("ldmatrix", &row, sizeof(row), [](WarpExchange& w) { TakeMatrices(w, false); });
  std::memcpy(out, warp.out[threadIdx.x % 32], sizeof(out));
}

}  // namespace lion::cuda::emulation
