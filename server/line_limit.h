// How many lines of a kind the log gets.
#pragma once

#include <cstdint>
#include <utility>

namespace lion {

// So many lines a second, and a count of those that were left out. For one thread at a time.
class LineLimit {
 public:
  explicit LineLimit(int64_t lines_per_second) : lines_per_second_(lines_per_second) {}

  // Whether a line may be written now; if not, it counts as left out. A second begins with the first line after the
  // second before.
  bool Allow(int64_t now_ns) {
    if (!begun_ || now_ns - second_ns_ >= kSecondNs) {
      begun_ = true;
      second_ns_ = now_ns;
      lines_ = 0;
    }
    if (lines_ < lines_per_second_) {
      ++lines_;
      return true;
    }
    ++left_out_;
    return false;
  }

  // How many were left out since the last call, once the second in which they were is over; else 0.
  int64_t TakeLeftOut(int64_t now_ns) { return now_ns - second_ns_ >= kSecondNs ? TakeLeftOut() : 0; }
  int64_t TakeLeftOut() { return std::exchange(left_out_, 0); }
  int64_t left_out() const { return left_out_; }

 private:
  static constexpr int64_t kSecondNs = 1'000'000'000;

  const int64_t lines_per_second_;
  bool begun_ = false;
  int64_t second_ns_ = 0;
  int64_t lines_ = 0;
  int64_t left_out_ = 0;
};

}  // namespace lion
