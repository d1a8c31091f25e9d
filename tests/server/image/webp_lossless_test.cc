// Files of a few kilobytes that would have libwebp allocate tables for thousands of prefix codes.
#include "server/image/webp_lossless.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/image/decode.h"
#include "tests/server/image/image_goldens.h"
#include "tests/server/image/webp_bits.h"

namespace lion {
namespace {

using namespace std::string_literals;
using testing::Chunk;
using testing::ExtraFile;
using testing::GoldenFile;
using ::testing::HasSubstr;
using testing::Riff;
using testing::Vp8l;
using testing::Vp8lOfGroups;
using testing::WebpBits;

// libwebp makes as many as the highest number asks for, up to 1,000; of more, only those that are used.
TEST(WebpLossless, CountsGroupsAsLibwebpMakesThem) {
  EXPECT_EQ(CountPrefixCodeGroups(Vp8lOfGroups(1, 1)), 1);
  EXPECT_EQ(CountPrefixCodeGroups(Vp8lOfGroups(2, 3)), 3);
  EXPECT_EQ(CountPrefixCodeGroups(Vp8l(2, {0, 0, 0, 60}, 61)), 61);
  EXPECT_EQ(CountPrefixCodeGroups(Vp8l(2, {0, 0, 0, 64}, 65)), 2) << "more than the 64 pixels";
  EXPECT_EQ(CountPrefixCodeGroups(Vp8l(8, std::vector<uint32_t>(64, 999), 1000)), 1000);
  EXPECT_EQ(CountPrefixCodeGroups(Vp8l(8, std::vector<uint32_t>(64, 1000), 1001)), 1);
}

TEST(WebpLossless, CountsTheGroupsOfRealFiles) {
  const auto count = [](const std::string& file) {
    const size_t chunk = file.find("VP8L");
    return CountPrefixCodeGroups(std::string_view(file).substr(chunk + 8));
  };
  EXPECT_EQ(count(GoldenFile("lossless.webp")), 1);
  EXPECT_EQ(count(ExtraFile("webp_lossless_alpha")), 1);
  EXPECT_EQ(count(ExtraFile("exif_webp_1_little")), 1);
}

TEST(WebpLossless, FilesWithAsManyGroupsAsTheLimitDecode) {
  const absl::StatusOr<RgbImage> image = DecodeImage(Riff(Chunk("VP8L", Vp8lOfGroups(51, kMaxPrefixCodeGroups))), {});
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->size(), (ImageSize{204, 204}));
}

TEST(WebpLossless, FilesWithMoreGroupsAreRefusedBeforeLibwebpSeesThem) {
  const std::string vp8l = Chunk("VP8L", Vp8lOfGroups(52, kMaxPrefixCodeGroups + 1));
  const std::string canvas = Chunk("VP8X", "\0\0\0\0\xcf\0\0\xcf\0\0"s);  // 208 x 208
  for (const std::string& chunks : {vp8l, canvas + vp8l, canvas + Chunk("ICCP", "x") + vp8l}) {
    for (const bool salvage : {false, true}) {
      const absl::Status status = DecodeImage(Riff(chunks), {.allow_truncated = salvage}).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), HasSubstr("WebP has 2601 groups of prefix codes; the limit is 2600"));
    }
  }
}

// The chunk's length says less than libwebp reads.
TEST(WebpLossless, GroupsBehindTheChunksEndCountToo) {
  const std::string vp8l = Vp8lOfGroups(52, kMaxPrefixCodeGroups + 1);
  const std::string chunk = Chunk("VP8L", vp8l.substr(0, 100)) + vp8l.substr(100);
  EXPECT_FALSE(CheckPrefixCodeGroups(chunk, {208, 208}).ok());
}

TEST(WebpLossless, TheAlphaOfALossyFileIsLookedAt) {
  const auto check = [](uint32_t groups, char compression) {
    std::vector<uint32_t> numbers(size_t{52} * 52, 0);
    for (uint32_t i = 0; i < groups; ++i) numbers[i] = i;
    WebpBits bits;
    testing::WriteGroups(numbers, groups, bits);
    return CheckPrefixCodeGroups(
        Chunk("VP8X", std::string(10, '\0')) + Chunk("ALPH", compression + bits.bytes()) + Chunk("VP8 ", "lossy"),
        {208, 208});
  };
  EXPECT_TRUE(check(kMaxPrefixCodeGroups, '\1').ok());
  EXPECT_FALSE(check(kMaxPrefixCodeGroups + 1, '\1').ok());
  EXPECT_FALSE(check(kMaxPrefixCodeGroups + 1, '\x11').ok()) << "the other bits say how it is filtered";
  EXPECT_TRUE(check(kMaxPrefixCodeGroups + 1, '\0').ok()) << "not compressed: these are pixels";
}

// Cut off or broken before the groups are known: libwebp, which then makes none, says what is wrong.
TEST(WebpLossless, BrokenFilesAreLeftToLibwebp) {
  const std::string whole = Vp8lOfGroups(8, 20);
  for (size_t size = 0; size < 140; ++size) EXPECT_EQ(CountPrefixCodeGroups(whole.substr(0, size)), 0) << size;
  EXPECT_EQ(CountPrefixCodeGroups(whole), 20);
  for (const std::string& chunks : {std::string(), std::string("VP8L"), Chunk("VP8L", ""), Chunk("ALPH", "")}) {
    EXPECT_TRUE(CheckPrefixCodeGroups(chunks, {1, 1}).ok());
  }
}

}  // namespace
}  // namespace lion
