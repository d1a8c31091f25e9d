// The resizer against Pillow's bicubic, to the bit.
#include "server/image/resize.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cstring>
#include <sstream>
#include <string>

#include "server/image/resample_weights.h"
#include "tests/server/image/image_goldens.h"

namespace lion {
namespace {

using ::lion::testing::ExtraGoldens;
using ::lion::testing::SamePicture;

// The pictures of tests/golden/images_extra/make.py.
int64_t Pattern(int64_t x, int64_t y, int64_t c) { return (x * x * 7 + y * y * 13 + x * y * (3 + c)) >> 4; }
int64_t Checkerboard(int64_t x, int64_t y, int64_t) { return ((x ^ y) & 1) * 255; }

RgbImage Draw(ImageSize size, int64_t (*sample)(int64_t, int64_t, int64_t)) {
  RgbImage image = *RgbImage::Create(size);
  uint8_t* out = image.pixels();
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      for (int64_t c = 0; c < 3; ++c) *out++ = static_cast<uint8_t>(sample(x, y, c));
    }
  }
  return image;
}

// "KIND.WIDTH.HEIGHT.TO_WIDTH.TO_HEIGHT.LEFT.TOP.PART_WIDTH.PART_HEIGHT"
ResizeGeometry Parse(const std::string& key) {
  std::istringstream in(key.substr(key.find('.')));
  ResizeGeometry g;
  char dot;
  in >> dot >> g.source.width >> dot >> g.source.height >> dot >> g.resized.width >> dot >> g.resized.height >> dot >>
      g.left >> dot >> g.top >> dot >> g.part.width >> dot >> g.part.height;
  return g;
}

int CheckAll(const std::string& kind, int64_t (*sample)(int64_t, int64_t, int64_t)) {
  int count = 0;
  for (const auto& [key, want] : ExtraGoldens()) {
    if (key.rfind(kind + ".", 0) != 0) continue;
    SCOPED_TRACE(key);
    const ResizeGeometry geometry = Parse(key);
    const RgbImage source = Draw(geometry.source, sample);
    const absl::StatusOr<RgbImage> got = ResizeImage(source, geometry);
    EXPECT_TRUE(got.ok()) << got.status();
    if (got.ok()) {
      EXPECT_TRUE(SamePicture(*got, want));
    }

    // Row by row, as a decoder feeds it.
    const absl::StatusOr<std::unique_ptr<Resizer>> resizer = Resizer::Create(geometry);
    EXPECT_TRUE(resizer.ok()) << resizer.status();
    for (int64_t y = 0; y < source.height(); ++y) {
      std::memcpy((*resizer)->Row(y), source.row(y), source.row_bytes());
      (*resizer)->Done(y);
    }
    EXPECT_TRUE(SamePicture((*resizer)->Take(), want));
    ++count;
  }
  return count;
}

// Larger, smaller, one axis alone, neither, single pixels, thin pictures, parts anywhere; 4096 x 4096.
TEST(Resize, EqualsPillow) { EXPECT_EQ(CheckAll("resize", Pattern), 13); }

TEST(Resize, CheckerboardEqualsPillow) { EXPECT_EQ(CheckAll("checkerboard", Checkerboard), 1); }

TEST(Resize, EveryInstructionSetGivesTheSameBits) {
  int sets = 0;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    EXPECT_EQ(CheckAll("resize", Pattern), 13);
    ++sets;
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  EXPECT_GE(sets, 1);
}

TEST(ComputeBicubicWeights, SumToOneAndStayInside) {
  for (const int64_t in_size : {1, 2, 7, 64, 1000}) {
    for (const int64_t out_size : {1, 3, 64, 999, 4000}) {
      const ResampleWeights weights = ComputeBicubicWeights(in_size, out_size, 0, out_size);
      for (int64_t i = 0; i < out_size; ++i) {
        ASSERT_GE(weights.begin[i], 0);
        ASSERT_GE(weights.count[i], 1);
        ASSERT_LE(weights.begin[i] + weights.count[i], in_size);
        ASSERT_LE(weights.count[i], weights.stride);
        int64_t sum = 0;
        int64_t magnitude = 0;
        for (int64_t j = 0; j < weights.count[i]; ++j) {
          sum += weights.values[i * weights.stride + j];
          magnitude += std::abs(weights.values[i * weights.stride + j]);
        }
        // Each weight is rounded by at most half a unit.
        ASSERT_LE(std::abs(sum - (1 << kResampleBits)), weights.count[i] / 2 + 1) << in_size << " " << out_size;
        // The kernels add up in 32 bits.
        ASSERT_LT(magnitude * 255 + (1 << (kResampleBits - 1)), int64_t{1} << 31) << in_size << " " << out_size;
      }
    }
  }
}

}  // namespace
}  // namespace lion
