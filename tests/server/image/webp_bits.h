// Writes lossless WebP files bit by bit (RFC 9649, section 3), without help from an encoder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lion::testing {

class WebpBits {
 public:
  WebpBits& Write(uint32_t value, int bits) {
    for (int i = 0; i < bits; ++i, ++count_) {
      if (count_ % 8 == 0) bytes_.push_back('\0');
      bytes_.back() = static_cast<char>(bytes_.back() | (value >> i & 1) << (count_ % 8));
    }
    return *this;
  }
  // A code whose bits go from the highest to the lowest.
  WebpBits& WriteCode(uint32_t code, int bits) {
    while (bits-- > 0) Write(code >> bits & 1, 1);
    return *this;
  }
  // A simple prefix code of one symbol, which takes no bit then: `bits` is 1 or 8.
  WebpBits& OneSymbol(uint32_t symbol, int bits = 1) {
    return Write(1, 1).Write(0, 1).Write(bits == 8, 1).Write(symbol, bits);
  }
  // A prefix code of the symbols 0 to 255, 8 bits each, of an alphabet with or without more.
  WebpBits& Bytes(bool has_more) {
    Write(0, 1).Write(12 - 4, 4);
    for (int i = 0; i < 12; ++i) Write(i == 11, 3);  // the only length is 8
    Write(has_more, 1);
    return has_more ? Write(3, 3).Write(256 - 2, 8) : *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  int64_t count_ = 0;
};

// What follows the header: no transform; the numbers of the blocks' groups, blocks being 4 x 4; then that many groups
// that make every pixel 0.
inline void WriteGroups(const std::vector<uint32_t>& numbers, uint32_t groups, WebpBits& bits) {
  bits.Write(0, 1).Write(0, 1);                   // no transform, no colour cache
  bits.Write(1, 1).Write(0, 3);                   // groups, of blocks of 2^2
  bits.Write(0, 1);                               // their picture's colour cache: none
  bits.Bytes(/*has_more=*/true);                  // green: the low byte
  bits.Bytes(/*has_more=*/false);                 // red: the high byte
  for (int i = 0; i < 3; ++i) bits.OneSymbol(0);  // blue, alpha, distance
  for (const uint32_t number : numbers) bits.WriteCode(number & 0xff, 8).WriteCode(number >> 8, 8);
  for (uint32_t i = 0; i < 5 * groups; ++i) bits.OneSymbol(0);
}

inline std::string Chunk(const std::string& type, const std::string& data) {
  std::string chunk = type;
  for (int i = 0; i < 4; ++i) chunk.push_back(static_cast<char>(data.size() >> (8 * i)));
  return chunk + data + (data.size() % 2 != 0 ? std::string(1, '\0') : "");
}

inline std::string Riff(const std::string& chunks) { return Chunk("RIFF", "WEBP" + chunks); }

// The bitstream of a picture of this many blocks of 4 x 4 pixels a side, each with the group of this number.
inline std::string Vp8l(uint32_t blocks, const std::vector<uint32_t>& numbers, uint32_t groups) {
  WebpBits bits;
  bits.Write(0x2f, 8).Write(4 * blocks - 1, 14).Write(4 * blocks - 1, 14).Write(0, 4);
  WriteGroups(numbers, groups, bits);
  return bits.bytes();
}

// The same with `count` different groups, the rest of the blocks having the first.
inline std::string Vp8lOfGroups(uint32_t blocks, uint32_t count) {
  std::vector<uint32_t> numbers(size_t{blocks} * blocks, 0);
  for (uint32_t i = 0; i < count; ++i) numbers[i] = i;
  return Vp8l(blocks, numbers, count);
}

}  // namespace lion::testing
