#include "client/cli/bench/histogram.h"

#include <algorithm>
#include <bit>

namespace lion::bench {
namespace {

constexpr int kHalfBits = 10;  // buckets of a power of two: 1024
constexpr uint64_t kHalf = uint64_t{1} << kHalfBits;

// Bits that a value loses: 0 below 2 * kHalf, then one more with each power of two.
int Shift(uint64_t value) { return std::max(0, static_cast<int>(std::bit_width(value)) - (kHalfBits + 1)); }

size_t BucketOf(uint64_t value) {
  const int shift = Shift(value);
  return static_cast<size_t>(shift) * kHalf + (value >> shift);
}

int64_t MiddleOf(size_t bucket) {
  if (bucket < 2 * kHalf) return static_cast<int64_t>(bucket);
  const size_t shift = bucket / kHalf - 1;
  const uint64_t low = (bucket - shift * kHalf) << shift;
  return static_cast<int64_t>(low + ((uint64_t{1} << shift) >> 1));
}

}  // namespace

void Histogram::Record(int64_t ns) {
  ns = std::max<int64_t>(ns, 0);
  const size_t bucket = BucketOf(static_cast<uint64_t>(ns));
  if (bucket >= buckets_.size()) buckets_.resize(bucket + 1, 0);
  ++buckets_[bucket];
  min_ns_ = count_ == 0 ? ns : std::min(min_ns_, ns);
  max_ns_ = std::max(max_ns_, ns);
  ++count_;
  sum_ns_ += static_cast<double>(ns);
}

void Histogram::Merge(const Histogram& other) {
  if (other.count_ == 0) return;
  if (buckets_.size() < other.buckets_.size()) buckets_.resize(other.buckets_.size(), 0);
  for (size_t i = 0; i < other.buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  min_ns_ = count_ == 0 ? other.min_ns_ : std::min(min_ns_, other.min_ns_);
  max_ns_ = std::max(max_ns_, other.max_ns_);
  count_ += other.count_;
  sum_ns_ += other.sum_ns_;
}

double Histogram::mean_ns() const { return count_ == 0 ? 0 : sum_ns_ / static_cast<double>(count_); }

int64_t Histogram::ValueAtRank(int64_t rank) const {
  if (count_ == 0) return 0;
  rank = std::clamp<int64_t>(rank, 1, count_);
  int64_t seen = 0;
  size_t bucket = 0;
  while ((seen += buckets_[bucket]) < rank) ++bucket;
  return std::clamp(MiddleOf(bucket), min_ns_, max_ns_);
}

}  // namespace lion::bench
