// The three decoders behind DecodeImage. Each gives 8-bit RGB as Pillow's Image.convert("RGB") would, as stored in the
// file (not turned upright); colour profiles and gamma are ignored, alpha is dropped.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "server/image/image.h"
#include "server/image/image_header.h"

namespace lion {

struct DecodeOutcome {
  bool started = false;    // the first pixels were reached
  int64_t rows = 0;        // complete rows given to the sink
  bool truncated = false;  // stopped because the file ended
  absl::Status status;     // OK: the whole picture was decoded
};

// `header` is what ReadImageHeader found in `encoded`. `salvage`: a cut-off file is decoded as far as it goes.
// RESOURCE_EXHAUSTED: no memory. After an error the sink holds `rows` rows, or whatever was reached of its
// WholeImage().
DecodeOutcome DecodeJpeg(std::string_view encoded, const ImageHeader& header, bool salvage, RowSink& sink);
DecodeOutcome DecodePng(std::string_view encoded, const ImageHeader& header, bool salvage, RowSink& sink);
DecodeOutcome DecodeWebp(std::string_view encoded, const ImageHeader& header, bool salvage, RowSink& sink);

// Passes over a picture of this size that DecodeJpeg makes at most; INVALID_ARGUMENT for a file of more.
int64_t MaxJpegScans(ImageSize size);

// Hands all rows of a picture to a sink that has no WholeImage().
void PushRows(const RgbImage& image, RowSink& sink);

}  // namespace lion
