// Whether a quantity grows over time: the least-squares line through (x, y).
#pragma once

#include <cmath>
#include <cstdint>

namespace lion::bench {

class Trend {
 public:
  void Add(double x, double y) {
    ++count_;
    // Welford's updates: no difference of large sums.
    const double n = static_cast<double>(count_);
    const double dx = x - mean_x_, dy = y - mean_y_;
    mean_x_ += dx / n;
    mean_y_ += dy / n;
    xx_ += dx * (x - mean_x_);
    yy_ += dy * (y - mean_y_);
    xy_ += dx * (y - mean_y_);
  }

  // The slope of the line is above 0 by at least three of its standard errors. Of independent residuals, scatter alone
  // does that once in 700 times; neighbours in a queue have like latencies, and without any growth do it more often.
  bool Grows() const {
    if (count_ < 3 || xx_ <= 0 || xy_ <= 0) return false;
    const double slope = xy_ / xx_;
    const double rest = std::fmax(yy_ - slope * xy_, 0) / static_cast<double>(count_ - 2);
    return slope > 3 * std::sqrt(rest / xx_);
  }

 private:
  int64_t count_ = 0;
  double mean_x_ = 0, mean_y_ = 0;
  double xx_ = 0, yy_ = 0, xy_ = 0;  // sums of products of deviations from the means
};

}  // namespace lion::bench
