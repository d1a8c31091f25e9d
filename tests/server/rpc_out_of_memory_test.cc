// Allocations that fail inside the server. This program's operator new refuses large blocks when told.
#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>
#include <string>

#include "tests/server/rpc_fixture.h"
#include "tests/support/golden.h"

namespace {
constexpr size_t kAny = std::numeric_limits<size_t>::max();
std::atomic<size_t> largest_bytes = kAny;
std::atomic<int> refused = 0;
thread_local bool is_test = false;  // gets all it asks for
}  // namespace

namespace {
// Not inlined: gcc would see malloc meet delete.
__attribute__((noinline)) void* Allocate(size_t bytes) noexcept {
  void* memory = bytes > largest_bytes && !is_test ? nullptr : std::malloc(bytes);
  if (memory == nullptr) ++refused;
  return memory;
}
__attribute__((noinline)) void* AllocateOrThrow(size_t bytes) {
  void* memory = Allocate(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
__attribute__((noinline)) void Free(void* memory) noexcept { std::free(memory); }
}  // namespace

void* operator new(size_t bytes) { return AllocateOrThrow(bytes); }
void* operator new[](size_t bytes) { return AllocateOrThrow(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes); }
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete[](void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t) noexcept { Free(memory); }
void operator delete[](void* memory, size_t) noexcept { Free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { Free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { Free(memory); }

namespace lion {
namespace {

using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;

class RpcOutOfMemoryTest : public RpcTest {
 protected:
  void SetUp() override {
    is_test = true;
    RpcTest::SetUp();
  }
  // The same call refused for lack of memory, with a time to try again, and then answered. `bytes`: the largest block
  // there is in between, more than gRPC needs for itself.
  void ExpectRefusedThenAnswered(const v1::EmbedRequest& request, size_t bytes, const std::string& message) {
    largest_bytes = bytes;
    const Answer answer = Embed(request);
    largest_bytes = kAny;
    EXPECT_GE(refused, 1) << "nothing was refused: this test shows nothing";
    EXPECT_EQ(answer.status.error_code(), grpc::RESOURCE_EXHAUSTED) << answer.status.error_message();
    EXPECT_THAT(answer.status.error_message(), HasSubstr(message));
    EXPECT_EQ(answer.trailers.count("grpc-retry-pushback-ms"), 1u);
    EXPECT_EQ(Health("puppet"), HealthCheckResponse::SERVING);
    const Answer later = Embed(request);
    EXPECT_TRUE(later.status.ok()) << later.status.error_message();
  }
};

TEST_F(RpcOutOfMemoryTest, ADecodeWithoutMemoryFailsItsCallAlone) {
  ServeOne();
  v1::EmbedRequest request;
  request.add_inputs()->set_image(testing::ReadFile(testing::SourcePath("tests/golden/images/rgb.png")));
  request.mutable_options()->mutable_image()->set_resize(v1::ImageOptions::RESIZE_STRETCH);
  request.mutable_options()->mutable_image()->set_size(4096);
  ExpectRefusedThenAnswered(request, 20'000, "memory");
}

TEST_F(RpcOutOfMemoryTest, ATextWithoutMemoryForItsTokensFailsItsCallAlone) {
  ServeTexts();
  // The text itself takes 100 kB, the ids of its tokens 400 kB.
  ExpectRefusedThenAnswered(TextsOf({std::string(100'000, '.')}), 150'000, "no memory to prepare the input");
}

TEST_F(RpcOutOfMemoryTest, InputsBeyondTheirNumberAreNotEvenParsed) {
  ServeOne();
  // 400 kB on the wire; the list of their addresses alone takes 1.6 MB.
  v1::EmbedRequest request;
  for (int i = 0; i < 200'000; ++i) request.add_inputs();
  const int refused_before = refused;
  largest_bytes = 1'000'000;
  const Answer answer = Embed(request);
  largest_bytes = kAny;
  EXPECT_EQ(refused, refused_before);
  EXPECT_EQ(answer.status.error_code(), grpc::INVALID_ARGUMENT) << answer.status.error_message();
  EXPECT_THAT(answer.status.error_message(), HasSubstr("200000 inputs, the limit is 1024"));
}

TEST_F(RpcOutOfMemoryTest, AReplyWithoutMemoryFailsItsCallAlone) {
  v1::EmbedRequest request;
  v1::PixelTensor* pixels = request.add_inputs()->mutable_pixels();
  pixels->set_height(512);
  pixels->set_width(512);
  pixels->set_type(v1::PixelTensor::TYPE_UINT8);
  pixels->set_data(std::string(size_t{3} * 512 * 512, '\x21'));
  request.set_pooling(v1::POOLING_NONE);
  PuppetEngine* engine = ServeOne();
  engine->Hold();
  InFlight calls(stub_.get());
  calls.Start(request);
  engine->AwaitEntered(1);
  // The engine's 4097 rows of 16 bytes, but not the same with a header before them.
  largest_bytes = 4097 * 16;
  engine->Release();
  calls.AwaitAll();
  largest_bytes = kAny;
  EXPECT_EQ(calls.status(0).error_code(), grpc::RESOURCE_EXHAUSTED) << calls.status(0).error_message();
  EXPECT_THAT(calls.status(0).error_message(), HasSubstr("no memory for the reply"));
  EXPECT_TRUE(Embed(request).status.ok());
}

}  // namespace
}  // namespace lion
