// A PNG whose chunks' checksums are mended after a mutation: libpng would look no further than at the first wrong one.
#include <zlib.h>

#include "tests/fuzz/image.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

constexpr size_t kSignatureBytes = 8;
constexpr size_t kChunkBytes = 12;  // length, type and checksum of an empty one

uint32_t ReadBigEndian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

void MendChecksums(uint8_t* data, size_t size) {
  for (size_t at = kSignatureBytes; at + kChunkBytes <= size;) {
    const size_t length = ReadBigEndian(data + at);
    if (length > size - at - kChunkBytes) return;
    const auto crc = static_cast<uint32_t>(crc32(0, data + at + 4, static_cast<uInt>(length + 4)));
    for (int i = 0; i < 4; ++i) data[at + 8 + length + i] = static_cast<uint8_t>(crc >> (24 - 8 * i));
    at += length + kChunkBytes;
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 8 != 0) MendChecksums(data, size);
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lion::fuzz::PreprocessAsPlanned(data, size);
  return 0;
}
