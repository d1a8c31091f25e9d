// What the machine's cores can multiply at most: the measure that kernels are held against.
#pragma once

#include "kernels/types.h"

namespace lion {

// Multiplications and additions a second (2 M N K a product) of large square products of oneDNN, one on each of
// `threads` threads at once, operands of `type` and float32 sums: each thread's best of several. Measured at the first
// call with a type, with the instruction set that CpuOperations was asked for; 0 where there is no such product.
// Not thread-safe.
double PeakFlops(DataType type, int threads);

}  // namespace lion
