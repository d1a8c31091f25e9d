#include "server/image/exif.h"

#include <cstdint>

namespace lion {
namespace {

constexpr uint16_t kOrientationTag = 0x0112;
constexpr uint16_t kShort = 3;
constexpr uint16_t kLong = 4;

// Integers of a TIFF structure in its byte order. The caller checks bounds.
class TiffReader {
 public:
  TiffReader(std::string_view bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  uint32_t Read(size_t offset, int size) const {
    uint32_t value = 0;
    for (int i = 0; i < size; ++i) {
      const auto byte = static_cast<uint8_t>(bytes_[offset + i]);
      value |= static_cast<uint32_t>(byte) << (8 * (big_endian_ ? size - 1 - i : i));
    }
    return value;
  }

 private:
  std::string_view bytes_;
  bool big_endian_;
};

}  // namespace

int ExifOrientation(std::string_view block) {
  using namespace std::string_view_literals;
  if (block.substr(0, 6) == "Exif\0\0"sv) block.remove_prefix(6);
  if (block.size() < 8) return 1;
  const bool big_endian = block.substr(0, 4) == "MM\0*"sv;
  if (!big_endian && block.substr(0, 4) != "II*\0"sv) return 1;

  const TiffReader tiff(block, big_endian);
  const size_t directory = tiff.Read(4, 4);
  if (directory > block.size() - 2) return 1;
  const size_t entries = tiff.Read(directory, 2);
  int orientation = 1;
  // Entry: tag (2), type (2), count (4), value (4). A directory that runs past the end counts as far as it goes.
  for (size_t i = 0, at = directory + 2; i < entries && at + 12 <= block.size(); ++i, at += 12) {
    if (tiff.Read(at, 2) != kOrientationTag || tiff.Read(at + 4, 4) != 1) continue;
    const uint32_t type = tiff.Read(at + 2, 2);
    if (type != kShort && type != kLong) continue;
    const uint32_t value = tiff.Read(at + 8, type == kShort ? 2 : 4);
    orientation = value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return orientation;
}

}  // namespace lion
