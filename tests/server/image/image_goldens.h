// What the image tests share: golden tensors as bytes, comparison of pictures to the bit.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "server/image/image.h"
#include "tests/support/golden.h"

namespace lion::testing {

inline const std::map<std::string, GoldenTensor>& ImageGoldens() {
  static const auto* const kGoldens = new std::map(ReadGolden("tests/golden/images/expected.safetensors"));
  return *kGoldens;
}

// Pictures and answers made by tests/golden/images_extra/make.py.
inline const std::map<std::string, GoldenTensor>& ExtraGoldens() {
  static const auto* const kGoldens = new std::map(ReadGolden("tests/golden/images_extra/extra.safetensors"));
  return *kGoldens;
}

inline std::string GoldenFile(const std::string& name) { return ReadFile(SourcePath("tests/golden/images/" + name)); }

inline std::string ExtraFile(const std::string& name) {
  const std::vector<double>& values = ExtraGoldens().at("file." + name).values;
  std::string bytes(values.size(), '\0');
  std::transform(values.begin(), values.end(), bytes.begin(),
                 [](double v) { return static_cast<char>(static_cast<uint8_t>(v)); });
  return bytes;
}

// `want` is [height, width, 3].
inline ::testing::AssertionResult SamePicture(const RgbImage& got, const GoldenTensor& want) {
  if (got.height() != want.shape[0] || got.width() != want.shape[1]) {
    return ::testing::AssertionFailure() << "got " << got.width() << " x " << got.height() << " pixels, want "
                                         << want.shape[1] << " x " << want.shape[0];
  }
  int64_t wrong = 0;
  int64_t first = -1;
  for (int64_t i = 0; i < got.bytes(); ++i) {
    if (got.pixels()[i] == want.values[i]) continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << wrong << " of " << got.bytes()
                                       << " samples differ, the first at x = " << first / 3 % got.width()
                                       << ", y = " << first / 3 / got.width() << ", channel " << first % 3 << ": got "
                                       << int{got.pixels()[first]} << ", want " << want.values[first];
}

}  // namespace lion::testing
