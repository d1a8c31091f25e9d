#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/image/decoders.h"
#include "server/image/webp_lossless.h"

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

// Where the picture's bitstream lies, and where in the picture it belongs.
struct Bitstream {
  std::string_view bytes;  // of RIFF chunks
  ImageSize size;
  int64_t offset = 0;  // bytes, of its top left pixel
  bool partial = false;
};

// The first frame of an animation, of which the rest of the canvas is black.
VP8StatusCode FindFirstFrame(std::string_view encoded, const ImageHeader& header, bool partial, Bitstream* out) {
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
  // In the file, which outlives the demuxer.
  out->bytes = {reinterpret_cast<const char*>(frame.fragment.bytes), frame.fragment.size};
  out->size = {frame.width, frame.height};
  out->offset = (frame.y_offset * size.width + frame.x_offset) * 3;
  out->partial = partial && !frame.complete;
  return VP8_STATUS_OK;
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
  constexpr size_t kRiffHeader = 12;
  const int64_t stride = header.stored.width * 3;
  Bitstream bitstream = {encoded.substr(kRiffHeader), header.stored, 0, partial};
  WebPBitstreamFeatures features;
  VP8StatusCode status = WebPGetFeatures(data, encoded.size(), &features);
  const bool animation = status == VP8_STATUS_OK && features.has_animation;
  if (animation) status = FindFirstFrame(encoded, header, partial, &bitstream);
  if (status == VP8_STATUS_OK) {
    outcome.status = CheckPrefixCodeGroups(bitstream.bytes, bitstream.size);
    if (!outcome.status.ok()) return outcome;
    const std::string_view still = animation ? bitstream.bytes : encoded;
    status = DecodeStill(reinterpret_cast<const uint8_t*>(still.data()), still.size(), bitstream.partial,
                         pixels + bitstream.offset, static_cast<int>(stride),
                         static_cast<size_t>(stride * header.stored.height - bitstream.offset));
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
