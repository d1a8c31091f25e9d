// Files from attackers: refused from the header, never a crash, never memory because a file claims a size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "server/image/decode.h"
#include "server/image/decoders.h"
#include "server/image/preprocess.h"
#include "tests/server/image/image_goldens.h"

namespace lion {
namespace {

using namespace std::string_literals;
using ::lion::testing::GoldenFile;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ErrorOf(std::string_view encoded, const DecodeOptions& options = {}) {
  const absl::StatusOr<RgbImage> got = DecodeImage(encoded, options);
  EXPECT_EQ(got.status().code(), absl::StatusCode::kInvalidArgument) << got.status();
  // Admission sees the same as decoding, or nothing.
  const absl::StatusOr<ImageSize> size = ReadImageSize(encoded, options);
  if (!size.ok()) {
    EXPECT_EQ(size.status(), got.status());
  }
  return std::string(got.status().message());
}

std::string BigEndian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

// The CRC of PNG chunks.
uint32_t Crc(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

// An IHDR of 8-bit RGB and the start of an IDAT: 60 bytes.
std::string PngClaiming(uint32_t width, uint32_t height) {
  const std::string header = "IHDR" + BigEndian(width) + BigEndian(height) + "\x08\x02\0\0\0"s;
  std::string png = "\x89PNG\r\n\x1a\n" + BigEndian(13) + header + BigEndian(Crc(header)) + BigEndian(1 << 20) + "IDAT";
  png.resize(60);
  return png;
}

std::string JpegClaiming(int width, int height) {
  std::string jpeg = GoldenFile("landscape.jpg");
  const size_t frame = jpeg.find("\xff\xc0");
  jpeg[frame + 5] = static_cast<char>(height >> 8);
  jpeg[frame + 6] = static_cast<char>(height);
  jpeg[frame + 7] = static_cast<char>(width >> 8);
  jpeg[frame + 8] = static_cast<char>(width);
  return jpeg;
}

constexpr int kScansOfProgressiveJpg = 10;

int64_t PeakMemoryKib() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST(HostileImages, DecompressionBombsAreRefusedFromTheHeader) {
  const int64_t before_kib = PeakMemoryKib();
  EXPECT_THAT(ErrorOf(PngClaiming(100000, 100000)), AllOf(HasSubstr("100000 x 100000 = 10000000000 pixels"),
                                                          HasSubstr("268435456"), HasSubstr("--max-image-pixels")));
  EXPECT_THAT(ErrorOf(PngClaiming(19000, 19000)), HasSubstr("19000 x 19000 = 361000000 pixels"));
  EXPECT_THAT(ErrorOf(JpegClaiming(65535, 65535)), HasSubstr("65535 x 65535 = 4294836225 pixels"));
  EXPECT_THAT(ErrorOf(PngClaiming(0x7fffffff, 0x7fffffff)), HasSubstr("2147483647 x 2147483647"));
  EXPECT_LT(PeakMemoryKib() - before_kib, 16 << 10);
}

// Within the limit, but the pixels are not there: memory follows what was decoded and not what was announced.
TEST(HostileImages, ClaimsWithinTheLimitCostNoMemoryBeforeTheirPixelsArrive) {
  const int64_t before_kib = PeakMemoryKib();
  EXPECT_THAT(ErrorOf(PngClaiming(15000, 15000)), HasSubstr("truncated"));
  // The picture would have 644 MiB; AddressSanitizer's shadow of it is an eighth.
  EXPECT_LT(PeakMemoryKib() - before_kib, 128 << 10);
}

TEST(HostileImages, ThePixelLimitIsExact) {
  const std::string png = GoldenFile("tiny.png");  // 9 x 5
  EXPECT_TRUE(DecodeImage(png, {.max_pixels = 45}).ok());
  EXPECT_THAT(ErrorOf(png, {.max_pixels = 44}), HasSubstr("9 x 5 = 45 pixels; the limit is 44"));
}

TEST(HostileImages, ZeroSizesAreErrors) {
  EXPECT_THAT(ErrorOf(PngClaiming(0, 7)), HasSubstr("0 x 7"));
  EXPECT_THAT(ErrorOf(JpegClaiming(16, 0)), HasSubstr("16 x 0"));
}

TEST(HostileImages, OtherFormatsAreNamed) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("empty"));
  EXPECT_THAT(ErrorOf("GIF89a\1\0\1\0\x80\0\0"s),
              HasSubstr("not a JPEG, PNG or WebP file: starts with 47 49 46 38 39 61 01 00 01 00 80 00 (GIF)"));
  EXPECT_THAT(ErrorOf("BM\x36\0\0\0"s), HasSubstr("(BMP)"));
  EXPECT_THAT(ErrorOf("II*\0\x08\0\0\0"s), HasSubstr("(TIFF)"));
  EXPECT_THAT(ErrorOf("\0\0\0\x1c"s + "ftypavif"), HasSubstr("(AVIF)"));
  EXPECT_THAT(ErrorOf("/9j/4AAQSkZJRg=="), HasSubstr("base64"));
  EXPECT_THAT(ErrorOf("x"), HasSubstr("starts with 78"));
  EXPECT_THAT(ErrorOf("RIFF\x04\0\0\0WAVE"s), HasSubstr("not a JPEG, PNG or WebP file"));
}

TEST(HostileImages, EveryShortPrefixIsAnError) {
  for (const char* name : {"exif_6.jpg", "palette_trns.png", "lossless.webp", "photo.webp"}) {
    const std::string whole = GoldenFile(name);
    for (size_t size = 0; size < 200; ++size) {
      for (const bool salvage : {false, true}) {
        // A copy of exactly this size on the heap, so that AddressSanitizer sees a read past it.
        const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<int64_t>(size));
        const absl::StatusOr<RgbImage> got =
            DecodeImage(std::string_view(cut.data(), cut.size()), {.allow_truncated = salvage});
        if (!salvage) {
          EXPECT_FALSE(got.ok()) << name << " " << size;
        }
      }
    }
  }
}

TEST(HostileImages, UnsupportedJpegsAreErrors) {
  std::string twelve_bits = GoldenFile("landscape.jpg");
  const size_t frame = twelve_bits.find("\xff\xc0");
  twelve_bits[frame + 4] = 12;
  EXPECT_THAT(ErrorOf(twelve_bits), HasSubstr("damaged JPEG"));
  std::string lossless = GoldenFile("landscape.jpg");
  lossless[frame + 1] = static_cast<char>(0xC7);
  EXPECT_THAT(ErrorOf(lossless), HasSubstr("JPEG"));
}

TEST(HostileImages, DamagedPngIsRefused) {
  std::string png = GoldenFile("rgb.png");
  png[png.size() / 2] = static_cast<char>(png[png.size() / 2] ^ 0x10);
  EXPECT_THAT(ErrorOf(png), HasSubstr("damaged PNG"));
}

// Every scan of a progressive file is a pass over the whole picture, however short it is.
TEST(HostileImages, ScansWithoutEndAreRefused) {
  const std::string jpeg = GoldenFile("progressive.jpg");
  const std::string scan = jpeg.substr(jpeg.rfind("\xff\xda"), 12);
  const auto with_scans = [&](int count) {
    std::string more = jpeg.substr(0, jpeg.size() - 2);
    for (int i = kScansOfProgressiveJpg; i < count; ++i) more += scan;
    return more + "\xff\xd9";
  };
  EXPECT_TRUE(DecodeImage(with_scans(100), {}).ok());
  for (const bool salvage : {false, true}) {
    EXPECT_THAT(ErrorOf(with_scans(101), {.allow_truncated = salvage}),
                AllOf(HasSubstr("JPEG has 101 scans or more"), HasSubstr("pixels is 100")));
  }
}

// Scans times pixels are bounded, at 256 Mi pixels by more than the ten scans that files have.
TEST(HostileImages, LargePicturesMayHaveFewerScans) {
  EXPECT_EQ(MaxJpegScans({1, 1}), 100);
  EXPECT_EQ(MaxJpegScans({8192, 4096}), 100);
  EXPECT_EQ(MaxJpegScans({8192, 4097}), 99);
  EXPECT_EQ(MaxJpegScans({16384, 8192}), 25);
  EXPECT_EQ(MaxJpegScans({16384, 16384}), 12);
  EXPECT_EQ(MaxJpegScans({65535, 65535}), 12);
}

// Bit flips, cuts and overwritten runs of golden files of every format: any answer, but no crash.
TEST(HostileImages, RandomDamageNeverCrashes) {
  std::mt19937 random(7);
  ImagePreprocessOptions preprocess;
  preprocess.config.size = 32;
  preprocess.decode.max_pixels = 1 << 20;
  for (const char* name :
       {"bilevel.png", "exif_6.jpg", "gray4.png", "palette_2bit.png", "palette_trns.png", "rgb16.png", "tiny.png",
        "photo.webp", "lossless.webp", "progressive.jpg", "cmyk.jpg", "gray.jpg"}) {
    const std::string whole = GoldenFile(name);
    for (int round = 0; round < 60; ++round) {
      std::string bytes = whole;
      const size_t reach = round % 2 == 0 ? std::min<size_t>(bytes.size(), 300) : bytes.size();
      for (int i = 0; i < 1 + round % 5; ++i) bytes[random() % reach] ^= static_cast<char>(1 << random() % 8);
      if (round % 3 == 0) bytes.resize(random() % bytes.size());
      preprocess.decode.allow_truncated = round % 4 < 2;
      const absl::StatusOr<PreprocessPlan> plan = PlanPreprocess(bytes, preprocess, 16);
      const absl::StatusOr<RgbImage> got = PreprocessImage(bytes, preprocess, 16);
      if (!got.ok()) {
        EXPECT_EQ(got.status().code(), absl::StatusCode::kInvalidArgument) << got.status();
      } else {
        ASSERT_TRUE(plan.ok());
        EXPECT_EQ(got->size(), plan->size);
      }
    }
  }
}

}  // namespace
}  // namespace lion
