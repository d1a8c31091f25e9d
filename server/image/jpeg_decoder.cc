#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include <jpeglib.h>  // needs <cstddef> and <cstdio> before it

#include <jerror.h>  // needs jpeglib.h before it

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/image/decoders.h"

namespace lion {
namespace {

// Every scan is a pass over the whole picture, however few bytes it has: the work that a file may ask for is its pixels
// times its scans. Real files have about ten (libjpeg writes 10, of CMYK 18).
constexpr int64_t kMaxScans = 100;
constexpr int64_t kMinScans = 12;  // holds for pictures over 256 Mi pixels, where the server's limit was raised
constexpr int64_t kMaxScannedPixels = kMaxScans * (int64_t{32} << 20);

// libjpeg's state with ours behind it. `common.error_exit` jumps back to `escape`.
struct Decoder {
  jpeg_decompress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg_source_mgr source;
  jpeg_progress_mgr progress;
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX];
  int64_t max_scans;
  bool salvage;
  bool out_of_memory;
  bool too_many_scans;
  bool out_of_data;
  bool started;
  bool finished;
  int64_t rows;
};

Decoder* Self(j_common_ptr jpeg) { return static_cast<Decoder*>(jpeg->client_data); }
Decoder* Self(j_decompress_ptr jpeg) { return static_cast<Decoder*>(jpeg->client_data); }

[[noreturn]] void Fail(Decoder* self, const char* message) {
  std::snprintf(self->message, sizeof(self->message), "%s", message);
  std::longjmp(self->escape, 1);
}

[[noreturn]] void OnError(j_common_ptr jpeg) {
  char message[JMSG_LENGTH_MAX];
  jpeg->err->format_message(jpeg, message);
  Self(jpeg)->out_of_memory = jpeg->err->msg_code == JERR_OUT_OF_MEMORY;
  Fail(Self(jpeg), message);
}

// Warnings (level -1) are damage that libjpeg conceals, as Pillow lets it.
void OnMessage(j_common_ptr, int) {}
void OnOutput(j_common_ptr) {}

void OnProgress(j_common_ptr jpeg) {
  Decoder* self = Self(jpeg);
  if (self->jpeg.input_scan_number <= self->max_scans) return;
  self->too_many_scans = true;
  Fail(self, "");
}

void SourceNothing(j_decompress_ptr) {}

// The whole file is in the buffer from the start: being asked for more means that it is cut off.
boolean SourceFill(j_decompress_ptr jpeg) {
  static const JOCTET kEndOfImage[] = {0xFF, JPEG_EOI};
  Decoder* self = Self(jpeg);
  self->out_of_data = true;
  if (!self->salvage) Fail(self, "");
  self->source.next_input_byte = kEndOfImage;
  self->source.bytes_in_buffer = sizeof(kEndOfImage);
  return TRUE;
}

void SourceSkip(j_decompress_ptr jpeg, long count) {  // NOLINT(runtime/int): libjpeg's signature
  jpeg_source_mgr& source = Self(jpeg)->source;
  if (count <= 0) return;
  if (static_cast<size_t>(count) > source.bytes_in_buffer) {
    SourceFill(jpeg);
    return;
  }
  source.next_input_byte += count;
  source.bytes_in_buffer -= static_cast<size_t>(count);
}

// (t + (t >> 8)) >> 8 with t = a b + 128: a b / 255, rounded.
inline uint32_t MulDiv255(uint32_t a, uint32_t b) {
  const uint32_t t = a * b + 128;
  return (t + (t >> 8)) >> 8;
}

// Four-component files are taken to be inverted, as Adobe writes them, whether or not they have Adobe's marker: so does
// Pillow. With stored values c' = 255 - C and k' = 255 - K: R = k' - C k' / 255.
void InvertedCmykToRgb(const uint8_t* cmyk, int64_t width, uint8_t* rgb) {
  for (int64_t x = 0; x < width; ++x, cmyk += 4, rgb += 3) {
    const uint32_t k = cmyk[3];
    for (int c = 0; c < 3; ++c) rgb[c] = static_cast<uint8_t>(k - MulDiv255(255 - cmyk[c], k));
  }
}

// Everything between setjmp and a longjmp: no object here has a destructor.
void Run(Decoder& self, const ImageHeader& header, RowSink& sink) {
  if (setjmp(self.escape) != 0) return;
  jpeg_decompress_struct& jpeg = self.jpeg;
  jpeg_create_decompress(&jpeg);
  jpeg.client_data = &self;
  jpeg.src = &self.source;
  jpeg.progress = &self.progress;
  jpeg_read_header(&jpeg, TRUE);
  if (jpeg.image_width != header.stored.width || jpeg.image_height != header.stored.height) {
    Fail(&self, "it has two frame headers");
  }
  if (jpeg.num_components != 1 && jpeg.num_components != 3 && jpeg.num_components != 4) {
    Fail(&self, "it has neither 1, 3 nor 4 colour components");
  }
  const bool cmyk = jpeg.num_components == 4;
  jpeg.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&jpeg);
  self.started = true;
  JSAMPARRAY cmyk_row = nullptr;
  if (cmyk) {
    cmyk_row = (*jpeg.mem->alloc_sarray)(reinterpret_cast<j_common_ptr>(&jpeg), JPOOL_IMAGE, jpeg.output_width * 4, 1);
  }
  while (jpeg.output_scanline < jpeg.output_height) {
    const int64_t y = jpeg.output_scanline;
    uint8_t* rgb = sink.Row(y);
    JSAMPROW row = cmyk ? cmyk_row[0] : rgb;
    jpeg_read_scanlines(&jpeg, &row, 1);
    if (cmyk) InvertedCmykToRgb(row, header.stored.width, rgb);
    sink.Done(y);
    self.rows = y + 1;
  }
  // Reads up to the end marker: without it Pillow, too, calls the file truncated.
  jpeg_finish_decompress(&jpeg);
  self.finished = true;
}

// Why decoding stopped.
absl::Status Failure(const Decoder& decoder, int64_t found_scans, std::string_view encoded, ImageSize size) {
  if (decoder.out_of_memory) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory to decode a JPEG of ", size.width, " x ", size.height, " pixels"));
  }
  if (decoder.too_many_scans) {
    return absl::InvalidArgumentError(absl::StrCat("JPEG has ", found_scans, " scans or more; the limit for ",
                                                   size.width, " x ", size.height, " pixels is ", decoder.max_scans));
  }
  if (decoder.out_of_data) {
    return absl::InvalidArgumentError(absl::StrCat("truncated JPEG: the file ends after ", encoded.size(),
                                                   " bytes and ", decoder.rows, " of ", size.height, " rows"));
  }
  return absl::InvalidArgumentError(absl::StrCat("damaged JPEG: ", decoder.message));
}

}  // namespace

int64_t MaxJpegScans(ImageSize size) {
  return std::clamp(kMaxScannedPixels / (size.width * size.height), kMinScans, kMaxScans);
}

DecodeOutcome DecodeJpeg(std::string_view encoded, const ImageHeader& header, bool salvage, RowSink& sink) {
  Decoder decoder = {};
  decoder.salvage = salvage;
  decoder.max_scans = MaxJpegScans(header.stored);
  decoder.jpeg.err = jpeg_std_error(&decoder.errors);
  decoder.jpeg.client_data = &decoder;
  decoder.errors.error_exit = OnError;
  decoder.errors.emit_message = OnMessage;
  decoder.errors.output_message = OnOutput;
  decoder.progress.progress_monitor = OnProgress;
  decoder.source.next_input_byte = reinterpret_cast<const JOCTET*>(encoded.data());
  decoder.source.bytes_in_buffer = encoded.size();
  decoder.source.init_source = SourceNothing;
  decoder.source.fill_input_buffer = SourceFill;
  decoder.source.skip_input_data = SourceSkip;
  decoder.source.resync_to_restart = jpeg_resync_to_restart;
  decoder.source.term_source = SourceNothing;
  Run(decoder, header, sink);

  DecodeOutcome outcome;
  outcome.started = decoder.started;
  outcome.rows = decoder.rows;
  outcome.truncated = decoder.out_of_data;
  // Before the memory for a message is asked for, that of the decoder is given back.
  const int64_t found_scans = decoder.jpeg.input_scan_number;
  jpeg_destroy_decompress(&decoder.jpeg);
  if (!decoder.finished) outcome.status = Failure(decoder, found_scans, encoded, header.stored);
  return outcome;
}

}  // namespace lion
