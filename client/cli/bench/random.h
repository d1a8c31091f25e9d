// Random numbers that are the same with every standard library, which std's distributions are not.
#pragma once

#include <cstdint>
#include <random>

namespace lion::bench {

using Random = std::mt19937_64;

// In [0, 1).
inline double Uniform(Random& random) { return static_cast<double>(random() >> 11) * 0x1.0p-53; }

}  // namespace lion::bench
