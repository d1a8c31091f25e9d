#include "client/cli/bench/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "client/cli/bench/grpc_sender.h"
#include "client/cli/bench/synthetic_image.h"
#include "server/image/decode.h"

namespace lion::bench {
namespace {

using ::testing::HasSubstr;

TEST(SizeMixTest, ReadsSidesSizesAndWeights) {
  const auto mix = ParseSizeMix("224:8,1024x768:2,64:0.5,32");
  ASSERT_TRUE(mix.ok()) << mix.status();
  ASSERT_EQ(mix->size(), 4u);
  const SizeShare want[] = {{224, 224, 8 / 11.5}, {1024, 768, 2 / 11.5}, {64, 64, 0.5 / 11.5}, {32, 32, 1 / 11.5}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ((*mix)[i].width, want[i].width);
    EXPECT_EQ((*mix)[i].height, want[i].height);
    EXPECT_NEAR((*mix)[i].share, want[i].share, 1e-12);
  }
  EXPECT_EQ(SizeName((*mix)[1]), "1024x768");
  EXPECT_EQ(ParseSizeMix("224")->at(0).share, 1);
}

TEST(SizeMixTest, ErrorsQuoteThePartThatIsWrong) {
  for (const char* part :
       {"", "0", "-1", "65501", "x", "224x", "x224", "224x0", "2x2x2", " 224", "+224", "2e2", "0x10"}) {
    const absl::Status status = ParseSizeMix(std::string("32:1,") + part).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << part;
    EXPECT_THAT(std::string(status.message()), HasSubstr("\"" + std::string(part) + "\": expected a side")) << part;
  }
  for (const char* part : {"224:", "224:0", "224:-1", "224:nan", "224:inf", "224:1:1", "224:x", "224:1e10"}) {
    EXPECT_THAT(std::string(ParseSizeMix(part).status().message()), HasSubstr("expected a weight")) << part;
  }
  EXPECT_THAT(std::string(ParseSizeMix("8:1,8x8:2").status().message()),
              HasSubstr("\"8x8:2\": this size is given twice"));
}

TEST(SizeDrawTest, DrawsEachSizeByItsShareAsTheSeedSays) {
  const auto mix = *ParseSizeMix("1:70,2:25,3:5");
  SizeDraw draw(mix, 5), again(mix, 5);
  const int count = 100'000;
  int drawn[3] = {};
  for (int i = 0; i < count; ++i) {
    const size_t size = draw.Next();
    ASSERT_LT(size, 3u);
    ASSERT_EQ(size, again.Next());
    ++drawn[size];
  }
  for (size_t i = 0; i < 3; ++i) {  // five standard errors
    const double share = mix[i].share;
    EXPECT_NEAR(drawn[i] / 1e5, share, 5 * std::sqrt(share * (1 - share) / count));
  }
}

TEST(SyntheticImageTest, IsAFunctionOfSizeAndSeed) {
  const Pixels image = SyntheticImage(50, 30, 1);
  EXPECT_EQ(image.width, 50);
  EXPECT_EQ(image.height, 30);
  EXPECT_EQ(image.planes.size(), 3u * 50 * 30);
  EXPECT_EQ(image.planes, SyntheticImage(50, 30, 1).planes);
  EXPECT_NE(image.planes, SyntheticImage(50, 30, 2).planes);
  EXPECT_EQ(SyntheticImage(1, 1, 3).planes.size(), 3u);
  EXPECT_EQ(SyntheticImage(3, 1000, 3).planes.size(), 9000u);
}

// Between a drawing, which nearly vanishes when it is compressed, and white noise, which does not shrink at all.
TEST(SyntheticImageTest, IsAsHardToCompressAsAPhotograph) {
  const Pixels image = SyntheticImage(512, 384, 4);
  const double bytes = static_cast<double>(image.planes.size());
  const double png = static_cast<double>(EncodePng(image)->size()) / bytes;
  const double jpeg = static_cast<double>(EncodeJpeg(image)->size()) / bytes;
  EXPECT_GT(png, 0.4);
  EXPECT_LT(png, 0.8);
  EXPECT_GT(jpeg, 0.05);
  EXPECT_LT(jpeg, 0.25);
}

TEST(SyntheticImageTest, UsesTheRangeOfColoursAndChangesSlowly) {
  const Pixels image = SyntheticImage(256, 256, 5);
  std::set<uint8_t> values;
  double step = 0;
  for (size_t i = 1; i < image.planes.size(); ++i) {
    values.insert(static_cast<uint8_t>(image.planes[i]));
    step += std::abs(static_cast<uint8_t>(image.planes[i]) - static_cast<uint8_t>(image.planes[i - 1]));
  }
  EXPECT_GT(values.size(), 150u);
  EXPECT_LT(step / static_cast<double>(image.planes.size()), 12);
}

uint8_t Planar(const Pixels& image, int64_t channel, int64_t y, int64_t x) {
  return static_cast<uint8_t>(image.planes[(channel * image.height + y) * image.width + x]);
}

// Mean absolute difference of the server's decoder to what was encoded.
double Difference(const Pixels& image, const std::string& encoded) {
  const auto decoded = DecodeImage(encoded, DecodeOptions());
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  if (!decoded.ok() || decoded->width() != image.width || decoded->height() != image.height) return 255;
  double sum = 0;
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x) {
      for (int64_t c = 0; c < 3; ++c) sum += std::abs(decoded->row(y)[3 * x + c] - Planar(image, c, y, x));
    }
  }
  return sum / static_cast<double>(image.planes.size());
}

TEST(EncodeImageTest, TheServerDecodesWhatWasEncoded) {
  for (const auto& [width, height] : {std::pair<int64_t, int64_t>(101, 37), {1, 1}, {16, 300}}) {
    const Pixels image = SyntheticImage(width, height, 6);
    EXPECT_EQ(Difference(image, *EncodePng(image)), 0);
    // JPEG halves the resolution of colours, which takes some of their noise away.
    const std::string jpeg = *EncodeJpeg(image);
    EXPECT_LT(Difference(image, jpeg), 0.3 * Difference(SyntheticImage(width, height, 7), jpeg));
  }
}

TEST(EncodeImageTest, WhatNoEncoderTakesIsAnError) {
  const Pixels wide = {70'000, 1, std::string(210'000, 'x')};
  EXPECT_THAT(EncodeJpeg(wide).status().ToString(), HasSubstr("cannot write a JPEG"));
  EXPECT_THAT(EncodePng({0, 0, ""}).status().ToString(), HasSubstr("cannot write a PNG"));
}

TEST(BuildRequestsTest, MakesEightVariantsUpToTheirBudget) {
  BenchFlags flags;
  const auto small = BuildRequests(flags, *ParseSizeMix("32,48x16"));
  ASSERT_TRUE(small.ok()) << small.status();
  ASSERT_EQ(small->size(), 2u);
  EXPECT_EQ((*small)[0].size(), 8u);
  EXPECT_EQ((*small)[1].size(), 8u);
  const auto large = BuildRequests(flags, *ParseSizeMix("2000"));  // 12 MB of pixels each
  EXPECT_EQ(large->at(0).size(), 2u);
  EXPECT_GT(std::get<Prepared<v1::EmbedRequest>>(large->at(0)[0]).bytes(), 12'000'000);
}

TEST(BuildRequestsTest, WhatNoMessageHoldsIsRefusedBeforeItIsMade) {
  BenchFlags flags;
  EXPECT_THAT(BuildRequests(flags, *ParseSizeMix("8,30000")).status().ToString(),
              HasSubstr("30000x30000: 2700000000 bytes of pixels"));
  flags.inputs_per_call = 100'000;
  EXPECT_THAT(BuildRequests(flags, *ParseSizeMix("100")).status().ToString(), HasSubstr("3000000000 bytes of pixels"));
}

TEST(ToAnswerTest, AddsUpResultsAndKeepsTheServersTimings) {
  v1::EmbedResponse response;
  response.add_results()->set_tokens(50);
  response.add_results()->set_tokens(17);
  Answer answer = ToAnswer(response);
  EXPECT_TRUE(answer.status.ok());
  EXPECT_EQ(answer.images, 2);
  EXPECT_EQ(answer.tokens, 67);
  EXPECT_FALSE(answer.timing.has_value());
  v1::Timing& timing = *response.mutable_timing();
  timing.set_total_ns(9);
  timing.set_queue_ns(1);
  timing.set_preprocess_ns(2);
  timing.set_compute_ns(4);
  timing.set_batch_inputs(7);
  answer = ToAnswer(response);
  ASSERT_TRUE(answer.timing.has_value());
  EXPECT_EQ(answer.timing->total_ns, 9);
  EXPECT_EQ(answer.timing->queue_ns, 1);
  EXPECT_EQ(answer.timing->preprocess_ns, 2);
  EXPECT_EQ(answer.timing->compute_ns, 4);
  EXPECT_EQ(answer.timing->batch_inputs, 7);
}

TEST(ToAnswerTest, AnErrorInAResultIsTheCalls) {
  v1::ClassifyResponse response;
  response.add_results()->set_tokens(50);
  response.add_results()->mutable_error()->set_code(13);
  response.mutable_timing()->set_total_ns(1);
  const Answer answer = ToAnswer(response);
  EXPECT_TRUE(absl::IsInternal(answer.status));
  EXPECT_EQ(answer.images, 0);
  EXPECT_FALSE(answer.timing.has_value());
  EXPECT_TRUE(absl::IsUnavailable(ToAnswer(absl::StatusOr<v1::EmbedResponse>(absl::UnavailableError("x"))).status));
}

}  // namespace
}  // namespace lion::bench
