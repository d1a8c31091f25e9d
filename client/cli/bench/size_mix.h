// What sizes the images of a run have, in what proportion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/bench/random.h"

namespace lion::bench {

struct SizeShare {
  int64_t width = 0;  // pixels
  int64_t height = 0;
  double share = 0;  // of all calls; the shares of a mix add up to 1
};

std::string SizeName(const SizeShare& size);  // "1024x768"

// "224", "224:8,1024:2", "1024x768:0.5,64": a side or width x height, and a weight, which is 1 unless given.
// INVALID_ARGUMENT names the part that is wrong; a size given twice is.
absl::StatusOr<std::vector<SizeShare>> ParseSizeMix(const std::string& text);

// The sizes of successive calls: each drawn by its share, independently of those before. A function of the seed.
class SizeDraw {
 public:
  SizeDraw(const std::vector<SizeShare>& mix, uint64_t seed);
  size_t Next();  // an index of the mix

 private:
  std::vector<double> upper_;  // [sizes]: the sum of the shares up to and with each size
  Random random_;
};

}  // namespace lion::bench
