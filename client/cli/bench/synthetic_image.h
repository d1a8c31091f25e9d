// Pictures to send: nobody's, but as hard to compress and to decode as a photograph.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace lion::bench {

struct Pixels {
  int64_t width = 0;
  int64_t height = 0;
  std::string planes;  // [3, height, width], RGB, 0..255
};

// Smooth colour noise of two frequencies with the noise of a camera on it. A function of its arguments.
Pixels SyntheticImage(int64_t width, int64_t height, uint64_t seed);

// INTERNAL: what libpng or libjpeg said.
absl::StatusOr<std::string> EncodePng(const Pixels& image);
absl::StatusOr<std::string> EncodeJpeg(const Pixels& image);  // quality 90, chroma halved each way

}  // namespace lion::bench
