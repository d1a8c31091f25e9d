#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/image/decoders.h"

namespace lion {
namespace {

// Decodes one still bitstream to `out`, the picture's top left pixel in rows of `stride` bytes, of which `room` may be
// written. Truncated data fill the rows they reach.
VP8StatusCode DecodeStill(const uint8_t* data, size_t size, bool partial, uint8_t* out, int stride, size_t room) {
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) return VP8_STATUS_INVALID_PARAM;
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = out;
  config.output.u.RGBA.stride = stride;
  config.output.u.RGBA.size = room;
  if (!partial) return WebPDecode(data, size, &config);
  const std::unique_ptr<WebPIDecoder, decltype(&WebPIDelete)> decoder(WebPIDecode(nullptr, 0, &config), &WebPIDelete);
  if (decoder == nullptr) return VP8_STATUS_OUT_OF_MEMORY;
  return WebPIUpdate(decoder.get(), data, size);
}

// The first frame of an animation, on a black canvas.
VP8StatusCode DecodeFirstFrame(std::string_view encoded, const ImageHeader& header, bool partial, uint8_t* canvas) {
  const WebPData data = {reinterpret_cast<const uint8_t*>(encoded.data()), encoded.size()};
  WebPDemuxState state;
  const std::unique_ptr<WebPDemuxer, decltype(&WebPDemuxDelete)> demuxer(WebPDemuxPartial(&data, &state),
                                                                         &WebPDemuxDelete);
  if (demuxer == nullptr) return state == WEBP_DEMUX_PARSE_ERROR ? VP8_STATUS_BITSTREAM_ERROR : VP8_STATUS_SUSPENDED;
  WebPIterator frame;
  const std::unique_ptr<WebPIterator, decltype(&WebPDemuxReleaseIterator)> release(&frame, &WebPDemuxReleaseIterator);
  if (!WebPDemuxGetFrame(demuxer.get(), 1, &frame)) {
    return state == WEBP_DEMUX_DONE ? VP8_STATUS_BITSTREAM_ERROR : VP8_STATUS_SUSPENDED;
  }
  if (!partial && !frame.complete) return VP8_STATUS_SUSPENDED;
  const ImageSize size = header.stored;
  if (frame.x_offset < 0 || frame.y_offset < 0 || frame.width > size.width - frame.x_offset ||
      frame.height > size.height - frame.y_offset) {
    return VP8_STATUS_BITSTREAM_ERROR;
  }
  const int64_t offset = (frame.y_offset * size.width + frame.x_offset) * 3;
  return DecodeStill(frame.fragment.bytes, frame.fragment.size, partial && !frame.complete, canvas + offset,
                     static_cast<int>(size.width * 3), static_cast<size_t>(size.width * size.height * 3 - offset));
}

}  // namespace

DecodeOutcome DecodeWebp(std::string_view encoded, const ImageHeader& header, bool salvage, RowSink& sink) {
  DecodeOutcome outcome;
  RgbImage own;
  uint8_t* pixels = sink.WholeImage();
  if (pixels == nullptr) {
    absl::StatusOr<RgbImage> created = RgbImage::Create(header.stored);
    if (!created.ok()) {
      outcome.status = created.status();
      return outcome;
    }
    own = *std::move(created);
    pixels = own.pixels();
  }
  const auto* data = reinterpret_cast<const uint8_t*>(encoded.data());
  const bool partial = salvage && header.truncated;
  WebPBitstreamFeatures features;
  VP8StatusCode status = WebPGetFeatures(data, encoded.size(), &features);
  if (status == VP8_STATUS_OK) {
    const ImageSize size = header.stored;
    status = features.has_animation
                 ? DecodeFirstFrame(encoded, header, partial, pixels)
                 : DecodeStill(data, encoded.size(), partial, pixels, static_cast<int>(size.width * 3),
                               static_cast<size_t>(size.width * size.height * 3));
  }
  outcome.started = true;
  outcome.truncated = header.truncated || status == VP8_STATUS_SUSPENDED || status == VP8_STATUS_NOT_ENOUGH_DATA;
  outcome.rows = header.stored.height;
  if (status == VP8_STATUS_OUT_OF_MEMORY) {
    outcome.status = absl::ResourceExhaustedError("no memory to decode a WebP file");
  } else if (status != VP8_STATUS_OK && outcome.truncated) {
    outcome.status = absl::InvalidArgumentError(
        absl::StrCat("truncated WebP: the file ends after ", encoded.size(), " bytes, within its picture"));
  } else if (status != VP8_STATUS_OK) {
    outcome.status = absl::InvalidArgumentError(absl::StrCat("damaged WebP: libwebp reports error ", status));
  }
  if (own.pixels() != nullptr && (outcome.status.ok() || salvage)) PushRows(own, sink);
  return outcome;
}

}  // namespace lion
