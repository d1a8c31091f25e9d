// Decoding against Pillow's own answers, to the bit.
#include "server/image/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/image/image_goldens.h"

namespace lion {
namespace {

using ::lion::testing::ExtraFile;
using ::lion::testing::ExtraGoldens;
using ::lion::testing::GoldenFile;
using ::lion::testing::SamePicture;
using ::testing::HasSubstr;

// Calls `check(name, picture)` for every golden "KIND.NAME" whose name contains `part`; returns how many there were.
template <typename Check>
int ForEachGolden(const std::string& kind, const std::string& part, const Check& check) {
  int count = 0;
  for (const auto& [key, want] : ExtraGoldens()) {
    if (key.rfind(kind + ".", 0) != 0 || key.find(part) == std::string::npos) continue;
    SCOPED_TRACE(key);
    check(key.substr(kind.size() + 1), want);
    ++count;
  }
  return count;
}

int CheckDecoded(const std::string& kind, const std::string& part, const DecodeOptions& options) {
  return ForEachGolden(kind, part, [&](const std::string& name, const testing::GoldenTensor& want) {
    const std::string encoded = ExtraFile(name);
    const absl::StatusOr<ImageSize> size = ReadImageSize(encoded, options);
    ASSERT_TRUE(size.ok()) << size.status();
    EXPECT_EQ(size->height, want.shape[0]);
    EXPECT_EQ(size->width, want.shape[1]);
    const absl::StatusOr<RgbImage> got = DecodeImage(encoded, options);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_TRUE(SamePicture(*got, want));
  });
}

// Chroma subsamplings, odd sizes, progressive, gray, RGB, arithmetic-coded; CMYK and YCCK with and without Adobe's
// marker.
TEST(DecodeImage, JpegEqualsPillow) { EXPECT_EQ(CheckDecoded("rgb", ".jpeg_", {}), 16); }

// Every colour type and depth, plain and interlaced; 16-bit samples lose their low byte, alpha is dropped; APNG.
TEST(DecodeImage, PngEqualsPillow) { EXPECT_EQ(CheckDecoded("rgb", ".png_", {}), 32); }

// Lossy and lossless with alpha, which is dropped and not blended; animations give the first frame.
TEST(DecodeImage, WebpEqualsPillow) { EXPECT_EQ(CheckDecoded("rgb", ".webp_", {}), 4); }

// Orientations 1 to 8 in both byte orders in JPEG, PNG and WebP; eXIf behind the pixels; a LONG value; "Exif\0\0" in
// WebP.
TEST(DecodeImage, TurnsUprightByExif) { EXPECT_EQ(CheckDecoded("rgb", ".exif_", {}), 51); }

TEST(DecodeImage, LeavesPixelsAsStoredWhenAsked) {
  EXPECT_EQ(CheckDecoded("stored", ".exif_", {.apply_exif_orientation = false}), 51);
}

TEST(DecodeImage, RecognisesTheFormatByItsBytesAlone) {
  const absl::StatusOr<ImageHeader> header = ReadImageHeader(GoldenFile("photo.webp"));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->format, ImageFormat::kWebp);
}

TEST(DecodeImage, TruncatedFilesAreRefused) {
  for (const char* name :
       {"landscape.jpg", "progressive.jpg", "cmyk.jpg", "rgb.png", "rgb16.png", "photo.webp", "lossless.webp"}) {
    const std::string whole = GoldenFile(name);
    for (const int percent : {10, 50, 90}) {
      SCOPED_TRACE(::testing::Message() << name << " cut at " << percent << " %");
      const absl::StatusOr<RgbImage> got = DecodeImage(whole.substr(0, whole.size() * percent / 100), {});
      EXPECT_EQ(got.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(got.status().message()), HasSubstr("truncated"));
    }
  }
}

// As Pillow: a JPEG must reach its end marker, a PNG only the end of its pixels' chunk.
TEST(DecodeImage, MissingEndMarkers) {
  const std::string jpeg = GoldenFile("landscape.jpg");
  EXPECT_THAT(std::string(DecodeImage(jpeg.substr(0, jpeg.size() - 2), {}).status().message()), HasSubstr("truncated"));
  const std::string png = GoldenFile("rgb.png");
  const absl::StatusOr<RgbImage> got = DecodeImage(png.substr(0, png.size() - 12), {});
  ASSERT_TRUE(got.ok()) << got.status();
  const absl::StatusOr<RgbImage> whole = DecodeImage(png, {});
  EXPECT_EQ(std::memcmp(got->pixels(), whole->pixels(), whole->bytes()), 0);
}

// Pillow with LOAD_TRUNCATED_IMAGES: libjpeg's guess or black behind the cut.
TEST(DecodeImage, SalvagesTruncatedFilesWhenAllowed) {
  EXPECT_EQ(CheckDecoded("salvaged", "", {.allow_truncated = true}), 6);
}

TEST(DecodeImage, SalvagesTruncatedWebp) {
  for (const char* name : {"photo.webp", "lossless.webp"}) {
    SCOPED_TRACE(name);
    const std::string encoded = GoldenFile(name);
    const absl::StatusOr<RgbImage> whole = DecodeImage(encoded, {});
    const absl::StatusOr<RgbImage> half = DecodeImage(encoded.substr(0, encoded.size() / 2), {.allow_truncated = true});
    ASSERT_TRUE(half.ok()) << half.status();
    ASSERT_EQ(half->size(), whole->size());
    int64_t same = 0;
    while (same < whole->bytes() && half->pixels()[same] == whole->pixels()[same]) ++same;
    EXPECT_GT(same, whole->bytes() / 8) << "the top of the picture";
    EXPECT_EQ(half->pixels()[half->bytes() - 1], 0) << "the bottom is black";
  }
}

TEST(DecodeImage, AllowingTruncationChangesNothingForWholeFiles) {
  EXPECT_EQ(CheckDecoded("rgb", ".png_", {.allow_truncated = true}), 32);
  EXPECT_EQ(CheckDecoded("rgb", ".jpeg_", {.allow_truncated = true}), 16);
  EXPECT_EQ(CheckDecoded("rgb", ".webp_", {.allow_truncated = true}), 4);
}

}  // namespace
}  // namespace lion
