// Preprocessing against Pillow and torchvision's rules, to the bit.
#include "server/image/preprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/image/image_goldens.h"

namespace lion {
namespace {

using ::lion::testing::ExtraFile;
using ::lion::testing::GoldenFile;
using ::lion::testing::ImageGoldens;
using ::lion::testing::SamePicture;
using ::testing::AllOf;
using ::testing::HasSubstr;

ImagePreprocessOptions Options(Resize resize, int64_t size) {
  ImagePreprocessOptions options;
  options.config.resize = resize;
  options.config.size = size;
  return options;
}

struct Golden {
  std::string file;
  int64_t size;
};

// "KIND.FILE.EXTENSION.SIZE"
Golden Parse(const std::string& key) {
  const size_t kind = key.find('.');
  const size_t size = key.rfind('.');
  return {key.substr(kind + 1, size - kind - 1), std::stoll(key.substr(size + 1))};
}

int CheckAll(const std::string& kind, Resize resize) {
  int count = 0;
  for (const auto& [key, want] : ImageGoldens()) {
    if (key.rfind(kind + ".", 0) != 0) continue;
    SCOPED_TRACE(key);
    const auto [file, size] = Parse(key);
    const std::string encoded = GoldenFile(file);
    const ImagePreprocessOptions options = Options(resize, size);
    const absl::StatusOr<RgbImage> got = PreprocessImage(encoded, options, 1);
    EXPECT_TRUE(got.ok()) << got.status();
    if (got.ok()) {
      EXPECT_TRUE(SamePicture(*got, want));
    }
    const absl::StatusOr<PreprocessPlan> plan = PlanPreprocess(encoded, options, 1);
    EXPECT_TRUE(plan.ok()) << plan.status();
    if (plan.ok()) {
      EXPECT_EQ(plan->size, got->size());
    }
    ++count;
  }
  return count;
}

TEST(PreprocessImage, CenterCropEqualsPillow) { EXPECT_EQ(CheckAll("crop", Resize::kCenterCrop), 30); }
TEST(PreprocessImage, StretchEqualsPillow) { EXPECT_EQ(CheckAll("stretch", Resize::kStretch), 1); }
TEST(PreprocessImage, LongSideEqualsPillow) { EXPECT_EQ(CheckAll("long_side", Resize::kLongSide), 1); }

TEST(NormalizeToFloat, EqualsFloat32ToTheBit) {
  int count = 0;
  for (const auto& [key, want] : ImageGoldens()) {
    if (key.rfind("normalized.", 0) != 0) continue;
    SCOPED_TRACE(key);
    const auto [file, size] = Parse(key);
    const ImagePreprocessOptions options = Options(Resize::kCenterCrop, size);
    const absl::StatusOr<RgbImage> image = PreprocessImage(GoldenFile(file), options, 16);
    ASSERT_TRUE(image.ok()) << image.status();
    const std::vector<float> got = NormalizeToFloat(*image, options.config);
    ASSERT_EQ(got.size(), want.values.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], static_cast<float>(want.values[i])) << i;
    ++count;
  }
  EXPECT_EQ(count, 1);
}

TEST(PreprocessImage, NoneKeepsWholePatchesOfTheNativeResolution) {
  const std::string encoded = GoldenFile("exif_rotate_6.jpg");  // 280 x 160 as stored
  const absl::StatusOr<RgbImage> whole = DecodeImage(encoded, {});
  const absl::StatusOr<RgbImage> got = PreprocessImage(encoded, Options(Resize::kNone, 0), 16);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->size(), (ImageSize{160, 272}));
  const absl::StatusOr<RgbImage> odd = PreprocessImage(encoded, Options(Resize::kNone, 0), 14);
  ASSERT_TRUE(odd.ok()) << odd.status();
  ASSERT_EQ(odd->size(), (ImageSize{154, 280}));
  for (int64_t y = 0; y < 280; ++y) ASSERT_EQ(std::memcmp(odd->row(y), whole->row(y), 154 * 3), 0) << y;
}

// The part that is computed must not depend on how much of the rest is dropped.
TEST(PreprocessImage, DropsPixelsBeyondTheLastPatch) {
  for (const Resize resize : {Resize::kCenterCrop, Resize::kStretch, Resize::kLongSide}) {
    const std::string encoded = GoldenFile("landscape.jpg");
    const absl::StatusOr<RgbImage> whole = PreprocessImage(encoded, Options(resize, 100), 1);
    const absl::StatusOr<RgbImage> got = PreprocessImage(encoded, Options(resize, 100), 16);
    ASSERT_TRUE(whole.ok() && got.ok());
    EXPECT_EQ(got->width(), 96);
    EXPECT_EQ(got->height(), resize == Resize::kLongSide ? 64 : 96);
    for (int64_t y = 0; y < got->height(); ++y) ASSERT_EQ(std::memcmp(got->row(y), whole->row(y), got->row_bytes()), 0);
  }
}

TEST(PreprocessImage, OrientationComesBeforeResizing) {
  // The stored picture turned by hand and the turned file must give the same.
  ImagePreprocessOptions options = Options(Resize::kLongSide, 48);
  const absl::StatusOr<RgbImage> upright = PreprocessImage(GoldenFile("exif_6.jpg"), options, 16);
  options.decode.apply_exif_orientation = false;
  const absl::StatusOr<RgbImage> stored = PreprocessImage(GoldenFile("exif_6.jpg"), options, 16);
  ASSERT_TRUE(upright.ok() && stored.ok());
  EXPECT_EQ(upright->size(), (ImageSize{32, 48}));
  EXPECT_EQ(stored->size(), (ImageSize{48, 32}));
}

TEST(PreprocessedSize, FollowsTheRulesOfEachMode) {
  const auto size = [](int64_t width, int64_t height, Resize resize, int64_t side) {
    return PreprocessedSize(width, height, Options(resize, side), 16).value_or(ImageSize{});
  };
  EXPECT_EQ(size(420, 300, Resize::kCenterCrop, 224), (ImageSize{224, 224}));
  EXPECT_EQ(size(420, 300, Resize::kStretch, 230), (ImageSize{224, 224}));
  EXPECT_EQ(size(420, 300, Resize::kLongSide, 448), (ImageSize{448, 320}));
  EXPECT_EQ(size(300, 420, Resize::kLongSide, 448), (ImageSize{320, 448}));
  EXPECT_EQ(size(420, 300, Resize::kNone, 0), (ImageSize{416, 288}));
  // int(short * size / long + 0.5): 31.5 rounds up to two patches, a little less does not.
  EXPECT_EQ(size(640, 315, Resize::kLongSide, 64), (ImageSize{64, 32}));
  EXPECT_EQ(size(640, 314, Resize::kLongSide, 64), (ImageSize{64, 16}));
}

TEST(PlanResize, CropOffsetsAreRoundedHalfToEven) {
  // size 64, target 73: (73 - 64) / 2 = 4.5 -> 4; the long side 73 * 100 / 60 = 121.67 -> 121: (121 - 64) / 2 = 28.5
  // -> 28.
  const absl::StatusOr<ResizeGeometry> even = PlanResize({100, 60}, Options(Resize::kCenterCrop, 64), 16);
  ASSERT_TRUE(even.ok());
  EXPECT_EQ(even->resized, (ImageSize{121, 73}));
  EXPECT_EQ(even->left, 28);
  EXPECT_EQ(even->top, 4);
  // target 123: (123 - 108) / 2 = 7.5 -> 8.
  const absl::StatusOr<ResizeGeometry> odd = PlanResize({50, 50}, Options(Resize::kCenterCrop, 108), 16);
  ASSERT_TRUE(odd.ok());
  EXPECT_EQ(odd->resized, (ImageSize{123, 123}));
  EXPECT_EQ(odd->left, 8);
}

TEST(PlanResize, RefusesWhatCannotBe) {
  const auto error = [](ImageSize size, const ImagePreprocessOptions& options, int64_t patch) {
    const absl::Status status = PlanResize(size, options, patch).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(error({15, 200}, Options(Resize::kNone, 0), 16),
              AllOf(HasSubstr("15 x 200"), HasSubstr("smaller than one patch of 16 x 16")));
  EXPECT_THAT(error({100, 1}, Options(Resize::kLongSide, 64), 16), HasSubstr("64 x 1"));
  EXPECT_THAT(error({9, 5}, Options(Resize::kStretch, 8), 16), HasSubstr("8 x 8"));
  EXPECT_THAT(error({9, 5}, Options(Resize::kStretch, 20000), 16),
              AllOf(HasSubstr("400000000 pixels after resizing"), HasSubstr("--max-image-pixels")));
  EXPECT_THAT(error({9, 5}, Options(Resize::kStretch, 0), 16), HasSubstr("size"));
  EXPECT_THAT(error({9, 5}, Options(Resize::kStretch, -3), 16), HasSubstr("size"));
  EXPECT_THAT(error({9, 5}, Options(Resize::kStretch, int64_t{1} << 40), 16), HasSubstr("size"));
  EXPECT_THAT(error({9, 5}, Options(Resize::kStretch, 32), 0), HasSubstr("patch_size"));
  for (const double ratio : {0.0, -1.0, 1.01, 1e-9, static_cast<double>(NAN)}) {
    ImagePreprocessOptions options = Options(Resize::kCenterCrop, 224);
    options.config.crop_ratio = ratio;
    EXPECT_THAT(error({90, 50}, options, 16), HasSubstr("crop_ratio")) << ratio;
  }
}

// 1 x 100,000 pixels to a short side of 256 would be 25,600,000 rows: only the crop may be computed.
TEST(PreprocessImage, ThinPicturesDoNotExplode) {
  rusage before = {};
  getrusage(RUSAGE_SELF, &before);
  for (const ImageSize size : {ImageSize{1, 100000}, ImageSize{100000, 1}}) {
    const absl::StatusOr<ResizeGeometry> geometry = PlanResize(size, Options(Resize::kCenterCrop, 224), 16);
    ASSERT_TRUE(geometry.ok()) << geometry.status();
    EXPECT_EQ(std::max(geometry->resized.width, geometry->resized.height), 25'600'000);
    EXPECT_LT(ResizeMemoryBytes(*geometry), 16 << 20);
    absl::StatusOr<RgbImage> source = RgbImage::Create(size);
    ASSERT_TRUE(source.ok());
    for (int64_t i = 0; i < source->bytes(); ++i) source->pixels()[i] = i < source->bytes() / 2 ? 10 : 200;
    const absl::StatusOr<RgbImage> got = ResizeImage(*source, *geometry);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->size(), (ImageSize{224, 224}));
    // The crop is 224 / 256 of a source pixel around the step in the middle: halfway up, the same on both sides.
    const int first = got->pixels()[0];
    const int last = got->pixels()[got->bytes() - 1];
    EXPECT_GT(first, 10);
    EXPECT_LT(first, 105);
    EXPECT_EQ(first - 10, 200 - last);
  }
  rusage after = {};
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 32 << 10);
}

TEST(PreprocessImage, ThreadsDoNotDisturbEachOther) {
  const auto work = [](const char* file) {
    const testing::GoldenTensor& want = ImageGoldens().at(std::string("crop.") + file + ".64");
    for (int i = 0; i < 20; ++i) {
      const absl::StatusOr<RgbImage> got = PreprocessImage(GoldenFile(file), Options(Resize::kCenterCrop, 64), 16);
      ASSERT_TRUE(got.ok()) << got.status();
      ASSERT_TRUE(SamePicture(*got, want)) << file;
    }
  };
  std::vector<std::thread> threads;
  for (const char* file : {"landscape.jpg", "rgb.png", "photo.webp", "cmyk.jpg"}) threads.emplace_back(work, file);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace lion
