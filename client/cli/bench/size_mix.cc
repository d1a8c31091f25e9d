#include "client/cli/bench/size_mix.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lion::bench {
namespace {

constexpr int64_t kMaxSide = 65'500;  // libjpeg's; PNG and PixelTensor go further

absl::Status Wrong(const std::string& part, const char* why) {
  return absl::InvalidArgumentError(absl::StrCat("\"", part, "\": ", why));
}

bool ParseSide(const std::string& text, int64_t& side) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  return digits && absl::SimpleAtoi(text, &side) && side >= 1 && side <= kMaxSide;
}

}  // namespace

std::string SizeName(const SizeShare& size) { return absl::StrCat(size.width, "x", size.height); }

absl::StatusOr<std::vector<SizeShare>> ParseSizeMix(const std::string& text) {
  std::vector<SizeShare> mix;
  double sum = 0;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    const std::vector<std::string> fields = absl::StrSplit(part, absl::MaxSplits(':', 1));
    const std::vector<std::string> sides = absl::StrSplit(fields[0], absl::MaxSplits('x', 1));
    SizeShare size;
    size.share = 1;
    if (!ParseSide(sides[0], size.width) || !ParseSide(sides.back(), size.height)) {
      return Wrong(part, "expected a side or WIDTHxHEIGHT of 1 to 65500 pixels, as in 224 or 1024x768");
    }
    if (fields.size() > 1) {
      if (!absl::SimpleAtod(fields[1], &size.share) || !(size.share > 0 && size.share <= 1e9)) {
        return Wrong(part, "expected a weight above 0 and up to 1e9 after the colon, as in 224:8");
      }
    }
    for (const SizeShare& other : mix) {
      if (other.width == size.width && other.height == size.height) return Wrong(part, "this size is given twice");
    }
    sum += size.share;
    mix.push_back(size);
  }
  for (SizeShare& size : mix) size.share /= sum;
  return mix;
}

SizeDraw::SizeDraw(const std::vector<SizeShare>& mix, uint64_t seed) : random_(seed) {
  double sum = 0;
  for (const SizeShare& size : mix) upper_.push_back(sum += size.share);
}

size_t SizeDraw::Next() {
  const double value = Uniform(random_);
  const auto found = std::upper_bound(upper_.begin(), upper_.end() - 1, value);  // rounding: the last takes the rest
  return static_cast<size_t>(found - upper_.begin());
}

}  // namespace lion::bench
