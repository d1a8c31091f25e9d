// Encodes what scripts/acceptance/tokenizer.py sends: encode_lines FOLDER < REQUESTS > ANSWERS, and on standard error
// the bytes encoded and the nanoseconds that took.
//
// A request is five little-endian int32: special tokens (0, 1), mask token in text (0, 1), truncation (TextTruncation's
// number), max_tokens, offsets (0, 1); then the first text, as int32 length and bytes; then the second, of length -1 if
// there is none. An answer is int32 L, or -1 for an error; truncated (0, 1); ids [L], type ids [L], and offsets [L, 2]
// if they were wanted.
#include <unicode/uchar.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>

#include "server/tokenizer/tokenizer.h"

namespace {

bool ReadInteger(int32_t& value) {
  return static_cast<bool>(std::cin.read(reinterpret_cast<char*>(&value), sizeof(value)));
}

std::optional<std::string> ReadText() {
  int32_t size = -1;
  if (!ReadInteger(size) || size < 0) return std::nullopt;
  std::string text(static_cast<size_t>(size), '\0');
  std::cin.read(text.data(), size);
  return text;
}

void Write(const void* data, size_t bytes) {
  std::cout.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
}

void WriteInteger(int32_t value) { Write(&value, sizeof(value)); }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "encode_lines FOLDER or encode_lines --ages\n";
    return 2;
  }
  if (argv[1] == std::string_view("--ages")) {
    for (UChar32 code = 0; code <= UCHAR_MAX_VALUE; ++code) {
      UVersionInfo version;
      u_charAge(code, version);
      Write(version, 2);
    }
    return std::cout.flush() ? 0 : 1;
  }
  const auto tokenizer = lion::Tokenizer::Load(argv[1]);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status() << "\n";
    return 1;
  }
  std::ios::sync_with_stdio(false);
  std::cin.tie(nullptr);
  using Clock = std::chrono::steady_clock;
  Clock::duration spent{};
  size_t bytes = 0;
  int32_t special, mask, truncation, max_tokens, offsets;
  while (ReadInteger(special) && ReadInteger(mask) && ReadInteger(truncation) && ReadInteger(max_tokens) &&
         ReadInteger(offsets)) {
    const std::string first = ReadText().value_or("");
    const std::optional<std::string> second = ReadText();
    lion::EncodeOptions options;
    options.special_tokens = special != 0;
    options.mask_token_in_text = mask != 0;
    options.truncation = static_cast<lion::TextTruncation>(truncation);
    options.max_tokens = max_tokens;
    options.offsets = offsets != 0;
    bytes += first.size() + (second ? second->size() : 0);

    const auto started = Clock::now();
    const auto encoding = (*tokenizer)->Encode(first, second, options);
    spent += Clock::now() - started;
    if (!encoding.ok()) {
      WriteInteger(-1);
      continue;
    }
    WriteInteger(static_cast<int32_t>(encoding->ids.size()));
    WriteInteger(encoding->truncated ? 1 : 0);
    Write(encoding->ids.data(), encoding->ids.size() * sizeof(int32_t));
    Write(encoding->type_ids.data(), encoding->type_ids.size() * sizeof(int32_t));
    Write(encoding->offsets.data(), encoding->offsets.size() * sizeof(lion::ByteRange));
  }
  std::cerr << bytes << " " << std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count() << "\n";
  return std::cout.flush() ? 0 : 1;
}
