// When the requests of an open loop are due. Pure: no clock.
#pragma once

#include <cstdint>
#include <memory>

namespace lion::bench {

class ArrivalPlan {
 public:
  virtual ~ArrivalPlan() = default;
  // Nanoseconds from the start of the run to the next request; never less than the one before. Endless.
  virtual int64_t NextNs() = 0;
};

// Evenly, the first one at 0. `per_second` > 0. The n-th is computed from n, so that errors do not add up.
std::unique_ptr<ArrivalPlan> ConstantArrivals(double per_second);

// As callers who know nothing of each other come: distances are exponential with mean 1 / per_second. A function of the
// seed, the same on every machine with the same log1p.
std::unique_ptr<ArrivalPlan> PoissonArrivals(double per_second, uint64_t seed);

}  // namespace lion::bench
