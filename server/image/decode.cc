#include "server/image/decode.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/image/decoders.h"
#include "server/image/orient.h"
#include "server/image/out_of_memory.h"

namespace lion {

void PushRows(const RgbImage& image, RowSink& sink) {
  for (int64_t y = 0; y < image.height(); ++y) {
    std::memcpy(sink.Row(y), image.row(y), static_cast<size_t>(image.row_bytes()));
    sink.Done(y);
  }
}

int OrientationToApply(const ImageHeader& header, const DecodeOptions& options) {
  return options.apply_exif_orientation ? header.orientation : 1;
}

ImageSize UprightSize(ImageSize stored, int orientation) {
  return orientation >= 5 ? ImageSize{stored.height, stored.width} : stored;
}

absl::StatusOr<ImageHeader> ReadCheckedHeader(std::string_view encoded, const DecodeOptions& options) {
  absl::StatusOr<ImageHeader> header = ReadImageHeader(encoded);
  if (!header.ok()) return header;
  const ImageSize size = header->stored;
  if (size.width > options.max_pixels / size.height) {
    return absl::InvalidArgumentError(absl::StrCat("image has ", size.width, " x ", size.height, " = ",
                                                   size.width * size.height, " pixels; the limit is ",
                                                   options.max_pixels, " (--max-image-pixels)"));
  }
  return header;
}

absl::StatusOr<ImageSize> ReadImageSize(std::string_view encoded, const DecodeOptions& options) {
  const absl::StatusOr<ImageHeader> header = ReadCheckedHeader(encoded, options);
  if (!header.ok()) return header.status();
  return UprightSize(header->stored, OrientationToApply(*header, options));
}

int64_t DecodeMemoryBytes(const ImageHeader& header, bool whole_picture) {
  constexpr int64_t kTables = 1 << 20;
  const int64_t rows = (OrientedImage::kStripRows + 16) * 4 * header.stored.width;
  const int64_t picture = whole_picture ? header.stored.width * header.stored.height * 3 : 0;
  return picture + header.decoder_bytes + rows + kTables;
}

absl::Status DecodeRows(std::string_view encoded, const ImageHeader& header, const DecodeOptions& options,
                        RowSink& sink) {
  DecodeOutcome outcome;
  switch (header.format) {
    case ImageFormat::kJpeg:
      outcome = DecodeJpeg(encoded, header, options.allow_truncated, sink);
      break;
    case ImageFormat::kPng:
      outcome = DecodePng(encoded, header, options.allow_truncated, sink);
      break;
    case ImageFormat::kWebp:
      outcome = DecodeWebp(encoded, header, options.allow_truncated, sink);
      break;
  }
  if (outcome.status.ok()) return absl::OkStatus();
  if (!options.allow_truncated || !outcome.started || !absl::IsInvalidArgument(outcome.status)) return outcome.status;
  for (int64_t y = outcome.rows; y < header.stored.height; ++y) {
    std::memset(sink.Row(y), 0, static_cast<size_t>(header.stored.width * 3));
    sink.Done(y);
  }
  return absl::OkStatus();
}

absl::StatusOr<RgbImage> DecodeImage(std::string_view encoded, const DecodeOptions& options) {
  return WithinMemory("no memory to decode an image", [&]() -> absl::StatusOr<RgbImage> {
    const absl::StatusOr<ImageHeader> header = ReadCheckedHeader(encoded, options);
    if (!header.ok()) return header.status();
    absl::StatusOr<OrientedImage> sink = OrientedImage::Create(header->stored, OrientationToApply(*header, options));
    if (!sink.ok()) return sink.status();
    if (absl::Status status = DecodeRows(encoded, *header, options, *sink); !status.ok()) return status;
    return sink->Take();
  });
}

}  // namespace lion
