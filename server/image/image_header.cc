#include "server/image/image_header.h"

#include <webp/decode.h>

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/image/exif.h"
#include "server/image/webp_lossless.h"

namespace lion {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n"sv;
constexpr int64_t kMaxPngSide = 1'000'000;  // libpng's own limit

uint32_t Byte(std::string_view bytes, size_t offset) { return static_cast<uint8_t>(bytes[offset]); }

uint32_t BigEndian16(std::string_view bytes, size_t offset) {
  return Byte(bytes, offset) << 8 | Byte(bytes, offset + 1);
}

uint32_t BigEndian32(std::string_view bytes, size_t offset) {
  return BigEndian16(bytes, offset) << 16 | BigEndian16(bytes, offset + 2);
}

uint32_t LittleEndian32(std::string_view bytes, size_t offset) {
  return Byte(bytes, offset) | Byte(bytes, offset + 1) << 8 | Byte(bytes, offset + 2) << 16 |
         Byte(bytes, offset + 3) << 24;
}

absl::Status Truncated(const char* format, std::string_view encoded) {
  return absl::InvalidArgumentError(
      absl::StrCat("truncated ", format, ": the file ends inside its header, after ", encoded.size(), " bytes"));
}

// Walks the markers up to the first scan (ITU-T T.81, annex B).
absl::StatusOr<ImageHeader> ReadJpegHeader(std::string_view encoded) {
  ImageHeader header;
  header.format = ImageFormat::kJpeg;
  bool have_frame = false;
  bool have_exif = false;
  bool progressive = false;
  uint32_t components = 0;
  size_t at = 2;
  while (true) {
    while (at < encoded.size() && Byte(encoded, at) != 0xFF) ++at;  // as libjpeg: garbage between segments is skipped
    while (at < encoded.size() && Byte(encoded, at) == 0xFF) ++at;
    if (at >= encoded.size()) return Truncated("JPEG", encoded);
    const uint32_t marker = Byte(encoded, at++);
    if (marker == 0x00 || marker == 0x01 || (marker >= 0xD0 && marker <= 0xD7)) continue;  // no segment follows
    if (marker == 0xD9) return absl::InvalidArgumentError("damaged JPEG: it ends before its picture begins");
    if (marker == 0xDA) {
      // Scans of single components, as progressive files have them too, are gathered as 16-bit coefficients of the
      // whole picture, padded to whole blocks.
      const bool several_scans = progressive || (at + 2 < encoded.size() && Byte(encoded, at + 2) < components);
      if (several_scans) {
        header.decoder_bytes = 2 * components * (header.stored.width + 32) * (header.stored.height + 32);
      }
      break;
    }
    if (at + 2 > encoded.size()) return Truncated("JPEG", encoded);
    const size_t length = BigEndian16(encoded, at);
    if (length < 2) return absl::InvalidArgumentError(absl::StrCat("damaged JPEG: a segment of length ", length));
    if (at + length > encoded.size()) return Truncated("JPEG", encoded);
    const std::string_view segment = encoded.substr(at + 2, length - 2);
    at += length;
    const bool frame = marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
    if (frame && !have_frame) {
      if (segment.size() < 6) return absl::InvalidArgumentError("damaged JPEG: its frame header is too short");
      have_frame = true;
      header.stored = {BigEndian16(segment, 3), BigEndian16(segment, 1)};
      progressive = (marker & 3) == 2;
      components = Byte(segment, 5);
    } else if (marker == 0xE1 && !have_exif && segment.substr(0, 6) == "Exif\0\0"sv) {
      have_exif = true;
      header.orientation = ExifOrientation(segment);
    }
  }
  if (!have_frame) return absl::InvalidArgumentError("damaged JPEG: it has no frame header");
  return header;
}

// Walks the chunks (PNG specification, section 5), for eXIf may follow the pixels.
absl::StatusOr<ImageHeader> ReadPngHeader(std::string_view encoded) {
  ImageHeader header;
  header.format = ImageFormat::kPng;
  if (encoded.size() < 33) return Truncated("PNG", encoded);
  if (encoded.substr(8, 8) != "\0\0\0\x0dIHDR"sv) {
    return absl::InvalidArgumentError("damaged PNG: its first chunk is not an IHDR of 13 bytes");
  }
  header.stored = {BigEndian32(encoded, 16), BigEndian32(encoded, 20)};
  if (std::max(header.stored.width, header.stored.height) > kMaxPngSide) {
    return absl::InvalidArgumentError(absl::StrCat("PNG of ", header.stored.width, " x ", header.stored.height,
                                                   " pixels: no side may be over ", kMaxPngSide));
  }
  const bool interlaced = Byte(encoded, 28) != 0;
  if (interlaced) header.decoder_bytes = 3 * header.stored.width * header.stored.height;
  header.truncated = true;
  bool have_exif = false;
  for (size_t at = 33; at + 8 <= encoded.size();) {
    const size_t length = BigEndian32(encoded, at);
    const std::string_view type = encoded.substr(at + 4, 4);
    if (type == "IEND"sv) header.truncated = false;
    if (type == "IEND"sv || length + 12 > encoded.size() - at) break;
    if (type == "eXIf"sv && !have_exif) {
      have_exif = true;
      header.orientation = ExifOrientation(encoded.substr(at + 8, length));
    }
    at += length + 12;
  }
  return header;
}

absl::StatusOr<ImageHeader> ReadWebpHeader(std::string_view encoded) {
  ImageHeader header;
  header.format = ImageFormat::kWebp;
  header.truncated = LittleEndian32(encoded, 4) > encoded.size() - 8;
  WebPBitstreamFeatures features;
  const VP8StatusCode status =
      WebPGetFeatures(reinterpret_cast<const uint8_t*>(encoded.data()), encoded.size(), &features);
  if (status == VP8_STATUS_NOT_ENOUGH_DATA) return Truncated("WebP", encoded);
  if (status != VP8_STATUS_OK) {
    return absl::InvalidArgumentError(absl::StrCat("damaged WebP: libwebp reports error ", status, " in its header"));
  }
  header.stored = {features.width, features.height};
  // libwebp keeps a lossless picture's 32-bit pixels and up to a quarter of them for what decodes them, a lossy
  // picture's alpha and the same again to decode that, and rows come to us all at once.
  header.decoder_bytes = 9 * header.stored.width * header.stored.height;
  constexpr int kLossy = 1;
  if (features.format != kLossy || features.has_alpha != 0) header.decoder_bytes += PrefixCodeBytes(header.stored);
  // libwebp lists all frames and chunks, of 8 bytes and more, to find the first frame.
  if (features.has_animation != 0) header.decoder_bytes += 4 * static_cast<int64_t>(encoded.size());
  if (encoded.size() < 30 || encoded.substr(12, 4) != "VP8X"sv) return header;
  constexpr uint32_t kExifFlag = 0x08;
  if ((Byte(encoded, 20) & kExifFlag) == 0) return header;
  for (size_t at = 12; at + 8 <= encoded.size();) {
    const size_t length = LittleEndian32(encoded, at + 4);
    if (length > encoded.size() - at - 8) break;
    if (encoded.substr(at, 4) == "EXIF"sv) {
      header.orientation = ExifOrientation(encoded.substr(at + 8, length));
      break;
    }
    at += 8 + length + (length & 1);
  }
  return header;
}

// For the message about a file that is none of ours.
const char* GuessFormat(std::string_view encoded) {
  struct Magic {
    size_t offset;
    std::string_view bytes;
    const char* name;
  };
  static constexpr Magic kMagics[] = {
      {0, "GIF8"sv, "GIF"},
      {0, "BM"sv, "BMP"},
      {0, "II*\0"sv, "TIFF"},
      {0, "MM\0*"sv, "TIFF"},
      {4, "ftypavif"sv, "AVIF"},
      {4, "ftyphei"sv, "HEIC"},
      {4, "ftypmif1"sv, "HEIF"},
      {0, "\0\0\0\x0cJXL "sv, "JPEG XL"},
      {0, "\xff\x0a"sv, "JPEG XL"},
      {0, "\0\0\0\x0cjP  "sv, "JPEG 2000"},
      {0, "\0\0\1\0"sv, "ICO"},
      {0, "%PDF"sv, "PDF"},
      {0, "\x1f\x8b"sv, "gzip"},
      {0, "/9j/"sv, "base64 text of a JPEG: send the bytes themselves"},
      {0, "iVBORw0KGgo"sv, "base64 text of a PNG: send the bytes themselves"},
      {0, "UklGR"sv, "base64 text of a WebP: send the bytes themselves"},
      {0, "data:image/"sv, "data URL: send the bytes themselves"},
  };
  for (const Magic& magic : kMagics) {
    if (encoded.size() > magic.offset && encoded.substr(magic.offset, magic.bytes.size()) == magic.bytes) {
      return magic.name;
    }
  }
  return nullptr;
}

absl::Status UnknownFormat(std::string_view encoded) {
  if (encoded.empty()) return absl::InvalidArgumentError("not a JPEG, PNG or WebP file: it is empty");
  std::string found;
  for (size_t i = 0; i < std::min<size_t>(encoded.size(), 12); ++i) {
    absl::StrAppend(&found, i == 0 ? "" : " ", absl::Hex(Byte(encoded, i), absl::kZeroPad2));
  }
  const char* guess = GuessFormat(encoded);
  return absl::InvalidArgumentError(absl::StrCat("not a JPEG, PNG or WebP file: starts with ", found,
                                                 guess == nullptr ? "" : " (", guess == nullptr ? "" : guess,
                                                 guess == nullptr ? "" : ")"));
}

}  // namespace

absl::StatusOr<ImageHeader> ReadImageHeader(std::string_view encoded) {
  absl::StatusOr<ImageHeader> header;
  if (encoded.substr(0, 3) == "\xff\xd8\xff"sv) {
    header = ReadJpegHeader(encoded);
  } else if (encoded.substr(0, 8) == kPngSignature) {
    header = ReadPngHeader(encoded);
  } else if (encoded.size() >= 12 && encoded.substr(0, 4) == "RIFF"sv && encoded.substr(8, 4) == "WEBP"sv) {
    header = ReadWebpHeader(encoded);
  } else {
    return UnknownFormat(encoded);
  }
  if (header.ok() && (header->stored.width <= 0 || header->stored.height <= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("image of ", header->stored.width, " x ", header->stored.height, " pixels: a side is 0"));
  }
  return header;
}

}  // namespace lion
