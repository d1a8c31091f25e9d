// Whatever memory cannot be had while a picture is decoded and resized: the answer is RESOURCE_EXHAUSTED, never an
// exception, which on a thread of the server would end the process. A program of its own, for it replaces operator new.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "server/image/decode.h"
#include "server/image/decoders.h"
#include "server/image/preprocess.h"
#include "tests/server/image/image_goldens.h"
#include "tests/server/image/webp_bits.h"

namespace {

thread_local int64_t allocations_until_failure = -1;  // -1: none fails

__attribute__((noinline)) void* Allocate(std::size_t size) {
  if (allocations_until_failure >= 0 && allocations_until_failure-- == 0) throw std::bad_alloc();
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

__attribute__((noinline)) void Free(void* memory) { std::free(memory); }

}  // namespace

void* operator new(std::size_t size) { return Allocate(size); }
void* operator new[](std::size_t size) { return Allocate(size); }
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete[](void* memory) noexcept { Free(memory); }
void operator delete(void* memory, std::size_t) noexcept { Free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { Free(memory); }

namespace lion {
namespace {

using ::lion::testing::ExtraFile;
using ::lion::testing::GoldenFile;

#ifdef LION_SANITIZED
constexpr bool kSanitizer = true;
#else
constexpr bool kSanitizer = false;
#endif

// Runs `work` again and again; the first time its first allocation fails, then its second, and so on, until none did.
// Returns how many there are.
int64_t FailEachAllocation(const std::function<absl::Status()>& work, absl::StatusCode undisturbed) {
  for (int64_t i = 0;; ++i) {
    allocations_until_failure = i;
    const absl::Status status = work();
    const bool failed = allocations_until_failure < 0;
    allocations_until_failure = -1;
    if (!failed) {
      EXPECT_EQ(status.code(), undisturbed) << status;
      return i;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << "allocation " << i << ": " << status;
  }
}

ImagePreprocessOptions Options(Resize resize) {
  ImagePreprocessOptions options;
  options.config.resize = resize;
  options.config.size = 48;
  return options;
}

TEST(ImageMemory, EveryFailedAllocationIsAStatus) {
  for (const std::string& encoded :
       {GoldenFile("landscape.jpg"), GoldenFile("progressive.jpg"), GoldenFile("exif_3.jpg"), GoldenFile("exif_6.jpg"),
        GoldenFile("cmyk.jpg"), GoldenFile("rgb.png"), ExtraFile("png_6_8_interlaced"), GoldenFile("lossless.webp")}) {
    for (const Resize resize : {Resize::kCenterCrop, Resize::kStretch, Resize::kNone}) {
      const ImagePreprocessOptions options = Options(resize);
      const int64_t count =
          FailEachAllocation([&] { return PreprocessImage(encoded, options, 8).status(); }, absl::StatusCode::kOk);
      if (resize != Resize::kNone) {
        EXPECT_GT(count, 8);
      }
    }
    FailEachAllocation([&] { return DecodeImage(encoded, {}).status(); }, absl::StatusCode::kOk);
  }
}

TEST(ImageMemory, ResizingAPictureIsCovered) {
  const absl::StatusOr<RgbImage> source = RgbImage::Create({100, 90});
  ASSERT_TRUE(source.ok());
  const ResizeGeometry geometry = {.source = {100, 90}, .resized = {30, 40}, .part = {30, 40}};
  EXPECT_GT(FailEachAllocation([&] { return ResizeImage(*source, geometry).status(); }, absl::StatusCode::kOk), 8);
}

// Those of an error's own message.
TEST(ImageMemory, ErrorsAreCovered) {
  const std::string cut = GoldenFile("landscape.jpg").substr(0, 2000);
  for (const std::string& encoded : {std::string("GIF89a, which is none of ours"), cut}) {
    const ImagePreprocessOptions options = Options(Resize::kStretch);
    EXPECT_GT(FailEachAllocation([&] { return PreprocessImage(encoded, options, 8).status(); },
                                 absl::StatusCode::kInvalidArgument),
              0);
  }
}

// --- What the C libraries allocate, under a limit of the address space.

void AllowMoreMemory(int64_t bytes) {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const auto limit = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + bytes);
  const rlimit limits = {limit, limit};
  if (setrlimit(RLIMIT_AS, &limits) != 0) std::abort();
}

[[noreturn]] void ExitWith(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(0);
}

// Takes rows and forgets them.
class NoPicture final : public RowSink {
 public:
  explicit NoPicture(int64_t width) : row_(static_cast<size_t>(width * 3)) {}
  uint8_t* Row(int64_t) override { return row_.data(); }
  void Done(int64_t) override {}

 private:
  std::vector<uint8_t> row_;
};

TEST(ImageMemoryDeathTest, OfLibjpegIsAStatus) {
  if (kSanitizer) GTEST_SKIP() << "a sanitizer's allocator ends the process";
  // All coefficients of a progressive picture are held: 8192 x 8192 x 1.5 samples of 2 bytes.
  std::string jpeg = GoldenFile("progressive.jpg");
  const size_t frame = jpeg.find("\xff\xc2");
  ASSERT_NE(frame, std::string::npos);
  for (const size_t side : {frame + 5, frame + 7}) jpeg.replace(side, 2, std::string("\x20\0", 2));
  const auto decode = [&jpeg] {
    AllowMoreMemory(64 << 20);
    ExitWith(PreprocessImage(jpeg, Options(Resize::kStretch), 8).status());
  };
  EXPECT_EXIT(decode(), ::testing::ExitedWithCode(0),
              "RESOURCE_EXHAUSTED: no memory to decode a JPEG of 8192 x 8192 pixels");
}

TEST(ImageMemoryDeathTest, OfLibpngIsAStatus) {
  if (kSanitizer) GTEST_SKIP() << "a sanitizer's allocator ends the process";
  // libpng holds two rows: 6 MB here. The width stands at byte 16; the checksum that follows the header must fit.
  std::string png = GoldenFile("rgb.png");
  png.replace(16, 4, std::string("\0\x0f\x42\x40", 4));
  uint32_t crc = 0xFFFFFFFF;
  for (size_t i = 12; i < 29; ++i) {
    crc ^= static_cast<uint8_t>(png[i]);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xEDB88320 : 0);
  }
  for (int i = 0; i < 4; ++i) png[29 + i] = static_cast<char>(~crc >> (24 - 8 * i));
  const absl::StatusOr<ImageHeader> header = ReadImageHeader(png);
  ASSERT_TRUE(header.ok()) << header.status();
  ASSERT_EQ(header->stored.width, 1'000'000);
  NoPicture sink(header->stored.width);
  const auto decode = [&] {
    AllowMoreMemory(1 << 20);
    ExitWith(DecodePng(png, *header, /*salvage=*/false, sink).status);
  };
  EXPECT_EXIT(decode(), ::testing::ExitedWithCode(0), "RESOURCE_EXHAUSTED: no memory to decode a PNG of 1000000 x");
}

// Of a small picture with tables for 1,000 groups of prefix codes, more than its pixels need by far. (Found by
// fuzz_webp.)
TEST(ImageMemoryDeathTest, OfLibwebpIsWithinThePlan) {
  if (kSanitizer) GTEST_SKIP() << "a sanitizer's allocator takes more";
  const std::string webp =
      testing::Riff(testing::Chunk("VP8L", testing::Vp8l(8, std::vector<uint32_t>(64, 999), 1000)));
  const absl::StatusOr<PreprocessPlan> plan = PlanPreprocess(webp, Options(Resize::kStretch), 8);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto decode = [&] {
    AllowMoreMemory(plan->memory_bytes + (2 << 20));
    ExitWith(PreprocessImage(webp, Options(Resize::kStretch), 8).status());
  };
  EXPECT_EXIT(decode(), ::testing::ExitedWithCode(0), "OK");
}

}  // namespace
}  // namespace lion
