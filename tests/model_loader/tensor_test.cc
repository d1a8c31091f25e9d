#include "model_loader/tensor.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/model_loader/test_files.h"

namespace lion {
namespace {

using ::testing::ElementsAre;
using testing::Little;

std::vector<float> Convert(TensorType type, const std::string& bytes) {
  const int64_t count = static_cast<int64_t>(bytes.size()) / TensorTypeSize(type);
  return ToFloat32({type, {count}, {1}, bytes.data()});
}

TEST(ToFloat32, ConvertsEveryType) {
  EXPECT_THAT(Convert(TensorType::kFloat64, Little(0.1) + Little(-2.0)), ElementsAre(0.1f, -2.0f));
  EXPECT_THAT(Convert(TensorType::kFloat32, Little(1.5f) + Little(-0.25f)), ElementsAre(1.5f, -0.25f));
  EXPECT_THAT(Convert(TensorType::kInt64, Little<int64_t>(-7) + Little<int64_t>(1 << 20)),
              ElementsAre(-7.0f, 1048576.0f));
  EXPECT_THAT(Convert(TensorType::kInt32, Little<int32_t>(-70000)), ElementsAre(-70000.0f));
  EXPECT_THAT(Convert(TensorType::kInt16, Little<int16_t>(-300)), ElementsAre(-300.0f));
  EXPECT_THAT(Convert(TensorType::kInt8, "\xff\x7f"), ElementsAre(-1.0f, 127.0f));
  EXPECT_THAT(Convert(TensorType::kUint8, "\xff\x7f"), ElementsAre(255.0f, 127.0f));
  EXPECT_THAT(Convert(TensorType::kBool, std::string("\x00\x01", 2)), ElementsAre(0.0f, 1.0f));
}

TEST(ToFloat32, ConvertsHalvesExactly) {
  // 1, -2, the largest, the smallest normal, the smallest subnormal, -0.
  EXPECT_THAT(
      Convert(TensorType::kFloat16, Little<uint16_t>(0x3c00) + Little<uint16_t>(0xc000) + Little<uint16_t>(0x7bff) +
                                        Little<uint16_t>(0x0400) + Little<uint16_t>(0x0001) + Little<uint16_t>(0x8000)),
      ElementsAre(1.0f, -2.0f, 65504.0f, 0x1p-14f, 0x1p-24f, -0.0f));
  const auto special = Convert(TensorType::kFloat16, Little<uint16_t>(0x7c00) + Little<uint16_t>(0x7e00));
  EXPECT_EQ(special[0], std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(special[1]));
  EXPECT_TRUE(std::signbit(Convert(TensorType::kFloat16, Little<uint16_t>(0x8000))[0]));
}

TEST(ToFloat32, ConvertsBFloat16Exactly) {
  EXPECT_THAT(Convert(TensorType::kBFloat16, Little<uint16_t>(0x3f80) + Little<uint16_t>(0xc2c8)),
              ElementsAre(1.0f, -100.0f));
}

TEST(ToFloat32, FollowsStrides) {
  std::string data;
  for (int i = 0; i < 6; ++i) data += Little(static_cast<float>(i));
  EXPECT_THAT(ToFloat32({TensorType::kFloat32, {3, 2}, {1, 3}, data.data()}), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(ToFloat32({TensorType::kFloat32, {2, 1, 2}, {3, 99, 2}, data.data()}), ElementsAre(0, 2, 3, 5));
}

TEST(ToFloat32, ReadsUnalignedData) {
  const std::string data = "x" + Little(3.0f) + Little(4.0f);
  EXPECT_THAT(ToFloat32({TensorType::kFloat32, {2}, {1}, data.data() + 1}), ElementsAre(3.0f, 4.0f));
  EXPECT_THAT(ToFloat32({TensorType::kFloat32, {2, 1}, {1, 7}, data.data() + 1}), ElementsAre(3.0f, 4.0f));
}

TEST(ToFloat32, ScalarHasOneElementAndEmptyHasNone) {
  const std::string data = Little(3.0f);
  EXPECT_THAT(ToFloat32({TensorType::kFloat32, {}, {}, data.data()}), ElementsAre(3.0f));
  EXPECT_TRUE(ToFloat32({TensorType::kFloat32, {0, 1000000, 1000000}, {1, 1, 1}, data.data()}).empty());
}

}  // namespace
}  // namespace lion
