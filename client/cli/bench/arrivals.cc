#include "client/cli/bench/arrivals.h"

#include <cmath>

#include "client/cli/bench/random.h"

namespace lion::bench {
namespace {

constexpr double kSecondNs = 1e9;

class Constant : public ArrivalPlan {
 public:
  explicit Constant(double per_second) : per_second_(per_second) {}
  int64_t NextNs() override { return std::llround(static_cast<double>(next_++) / per_second_ * kSecondNs); }

 private:
  const double per_second_;
  int64_t next_ = 0;
};

class Poisson : public ArrivalPlan {
 public:
  Poisson(double per_second, uint64_t seed) : mean_ns_(kSecondNs / per_second), random_(seed) {}
  int64_t NextNs() override {
    at_ns_ -= mean_ns_ * std::log1p(-Uniform(random_));
    return std::llround(at_ns_);
  }

 private:
  const double mean_ns_;
  Random random_;
  double at_ns_ = 0;
};

}  // namespace

std::unique_ptr<ArrivalPlan> ConstantArrivals(double per_second) { return std::make_unique<Constant>(per_second); }

std::unique_ptr<ArrivalPlan> PoissonArrivals(double per_second, uint64_t seed) {
  return std::make_unique<Poisson>(per_second, seed);
}

}  // namespace lion::bench
