// From run-time type and head width to the template that has them.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/mixer.h"
#include "kernels/cuda/mixer_kernels.h"

namespace lion::cuda {

// use.operator()<T>()
template <class Use>
auto Dispatch(DataType type, const Use& use) {
  return type == DataType::kBFloat16 ? use.template operator()<BFloat16>() : use.template operator()<float>();
}

// use.operator()<T, kWidth>()
template <class Use>
LaunchResult Dispatch(DataType type, int64_t width, const Use& use) {
  static_assert(kMaxHeadWidth == 128, "the fault's words");
  if (width < 1 || width > kMaxHeadWidth) return {"a head's width is out of range: want 1 to 128"};
  return Dispatch(type, [&]<typename T>() {
    return PaddedWidth(width) == 64 ? use.template operator()<T, 64>() : use.template operator()<T, 128>();
  });
}

}  // namespace lion::cuda
