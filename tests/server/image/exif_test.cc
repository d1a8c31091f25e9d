// Broken EXIF blocks are ignored, never read past their end.
#include "server/image/exif.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "server/image/decode.h"
#include "tests/server/image/image_goldens.h"

namespace lion {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;

constexpr std::string_view kLittle = "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"sv;
constexpr std::string_view kBig = "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"sv;

std::string With(std::string_view block, size_t offset, std::string_view bytes) {
  return std::string(block).replace(offset, bytes.size(), bytes);
}

TEST(ExifOrientation, BothByteOrders) {
  EXPECT_EQ(ExifOrientation(kLittle), 6);
  EXPECT_EQ(ExifOrientation(kBig), 6);
  EXPECT_EQ(ExifOrientation("Exif\0\0"s + std::string(kBig)), 6);
}

TEST(ExifOrientation, EveryCutIsIgnoredOrHarmless) {
  for (size_t size = 0; size < kLittle.size(); ++size) {
    // A copy on the heap, so that AddressSanitizer sees a read past its end.
    const std::string cut(kLittle.substr(0, size));
    EXPECT_EQ(ExifOrientation(cut), size < 22 ? 1 : 6) << size;
  }
}

TEST(ExifOrientation, BrokenBlocksMeanUpright) {
  EXPECT_EQ(ExifOrientation(With(kLittle, 0, "XX")), 1) << "no byte order";
  EXPECT_EQ(ExifOrientation(With(kLittle, 2, "+")), 1) << "no TIFF";
  EXPECT_EQ(ExifOrientation(With(kLittle, 4, "\xff\xff\xff\xff")), 1) << "directory outside";
  EXPECT_EQ(ExifOrientation(With(kLittle, 4, "\x19")), 1) << "directory at the last byte";
  EXPECT_EQ(ExifOrientation(With(kLittle, 8, "\xff\xff")), 6) << "more entries than there are";
  EXPECT_EQ(ExifOrientation(With(kLittle, 12, "\x02")), 1) << "an ASCII orientation";
  EXPECT_EQ(ExifOrientation(With(kLittle, 14, "\x02")), 1) << "two orientations";
  EXPECT_EQ(ExifOrientation(With(kLittle, 18, "\x09")), 1) << "there is no ninth";
  EXPECT_EQ(ExifOrientation(With(kLittle, 18, "\0"sv)), 1) << "nor a zeroth";
}

TEST(DecodeImage, IgnoresBrokenExif) {
  std::string encoded = testing::ExtraFile("exif_jpeg_6_little");
  const size_t block = encoded.find("II*");
  ASSERT_NE(block, std::string::npos);
  encoded.replace(block, 3, "???");
  const absl::StatusOr<RgbImage> got = DecodeImage(encoded, {});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE(testing::SamePicture(*got, testing::ExtraGoldens().at("stored.exif_jpeg_6_little")));
}

}  // namespace
}  // namespace lion
