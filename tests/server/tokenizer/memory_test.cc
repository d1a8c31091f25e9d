// What encoding takes, whatever the text. A program of its own, for it replaces operator new.
#include <gmock/gmock.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "tests/server/tokenizer/tokenizer_folder.h"

namespace {

int64_t bytes_now = 0, most_bytes = 0;

// Not inlined: gcc would see malloc meet delete.
__attribute__((noinline)) void* Allocate(std::size_t bytes) {
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  bytes_now += static_cast<int64_t>(malloc_usable_size(memory));
  most_bytes = std::max(most_bytes, bytes_now);
  return memory;
}
__attribute__((noinline)) void Free(void* memory) noexcept {
  if (memory != nullptr) bytes_now -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) { return Allocate(bytes); }
void* operator new[](std::size_t bytes) { return Allocate(bytes); }
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete[](void* memory) noexcept { Free(memory); }
void operator delete(void* memory, std::size_t) noexcept { Free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { Free(memory); }

namespace lion {
namespace {

constexpr size_t kTextBytes = 1 << 20;
constexpr int64_t kTokens = 512;
// An id, a type and an offset of each; twice the window while reading, and vectors that grow by doubling.
constexpr int64_t kMostBytes = 16 * 4 * kTokens + (16 << 10);

std::string Repeated(std::string text, std::string_view part) {
  while (text.size() < kTextBytes) text += part;
  return text;
}

int64_t BytesOf(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options) {
  const int64_t before = most_bytes = bytes_now;
  EXPECT_TRUE(tokenizer.Encode(text, std::nullopt, options).ok());
  return most_bytes - before;
}

TEST(TokenizerMemory, NoTextTakesMoreThanItsTokens) {
  const auto tokenizer = testing::MakeTokenizer("a\n##a\n.\n[MASK]\n");
  const std::string texts[] = {
      Repeated("a\u302e", "\u0300"),        // one mark that is kept among many that are not
      Repeated("a", "\u302e\U0001d165"),    // all are kept, and every other one moves
      Repeated("", "\u0300") + "\u302e",    // the mark that is kept comes last
      Repeated("\U0001d15f", "\u0344"),     // characters that are several marks
      Repeated("a\u302e", "\u200d\u0301"),  // and some that are cleaned away
      Repeated("", "a"),                    // one word
      Repeated("", "."),
      Repeated("", "[MASK]"),
      Repeated("", " "),
  };
  for (const TextTruncation truncation : {TextTruncation::kEnd, TextTruncation::kStart}) {
    for (const std::string& text : texts) {
      EXPECT_LE(BytesOf(*tokenizer, text,
                        {.mask_token_in_text = true, .max_tokens = kTokens, .truncation = truncation, .offsets = true}),
                kMostBytes)
          << text.substr(0, 20);
    }
  }
}

}  // namespace
}  // namespace lion
