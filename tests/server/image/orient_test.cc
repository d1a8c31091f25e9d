// Every EXIF orientation on pictures of several strips, against the definition pixel by pixel.
#include "server/image/orient.h"

#include <gtest/gtest.h>

namespace lion {
namespace {

// Where stored pixel (x, y) of a w x h picture stands upright (EXIF 2.3, tag 0x0112).
ImageSize Upright(int orientation, int64_t x, int64_t y, int64_t w, int64_t h) {
  switch (orientation) {
    case 2:
      return {w - 1 - x, y};
    case 3:
      return {w - 1 - x, h - 1 - y};
    case 4:
      return {x, h - 1 - y};
    case 5:
      return {y, x};
    case 6:
      return {h - 1 - y, x};
    case 7:
      return {h - 1 - y, w - 1 - x};
    case 8:
      return {y, w - 1 - x};
    default:
      return {x, y};
  }
}

uint8_t Sample(int64_t x, int64_t y, int64_t c) { return static_cast<uint8_t>(x * 31 + y * 17 + x * y + c * 85); }

TEST(OrientedImage, PlacesEveryPixel) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    for (const ImageSize stored : {ImageSize{70, 150}, ImageSize{1, 64}, ImageSize{64, 1}, ImageSize{21, 65}}) {
      SCOPED_TRACE(::testing::Message() << "orientation " << orientation << ", " << stored.width << " x "
                                        << stored.height);
      absl::StatusOr<OrientedImage> sink = OrientedImage::Create(stored, orientation);
      ASSERT_TRUE(sink.ok()) << sink.status();
      for (int64_t y = 0; y < stored.height; ++y) {
        uint8_t* row = sink->Row(y);
        for (int64_t i = 0; i < stored.width * 3; ++i) row[i] = Sample(i / 3, y, i % 3);
        sink->Done(y);
      }
      const RgbImage image = sink->Take();
      ASSERT_EQ(image.width(), orientation >= 5 ? stored.height : stored.width);
      ASSERT_EQ(image.height(), orientation >= 5 ? stored.width : stored.height);
      for (int64_t y = 0; y < stored.height; ++y) {
        for (int64_t i = 0; i < stored.width * 3; ++i) {
          const ImageSize at = Upright(orientation, i / 3, y, stored.width, stored.height);
          ASSERT_EQ(image.row(at.height)[at.width * 3 + i % 3], Sample(i / 3, y, i % 3)) << i / 3 << ", " << y;
        }
      }
    }
  }
}

}  // namespace
}  // namespace lion
