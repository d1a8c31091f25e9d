#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/image/decoders.h"

namespace lion {
namespace {

constexpr size_t kNoChunk = static_cast<size_t>(-1);

struct Decoder {
  png_structp png;
  png_infop info;
  std::jmp_buf escape;
  char message[256];
  const uint8_t* data;
  size_t size;
  size_t at;
  // The IDAT chunk that the end of the file cuts, which is then announced to libpng as long as it is: libpng reads its
  // data in large pieces and would lose the last one.
  size_t cut_chunk;
  bool out_of_data;
  bool out_of_memory;
  bool started;
  bool finished;
  int64_t rows;
};

[[noreturn]] void OnError(png_structp png, png_const_charp message) {
  auto* self = static_cast<Decoder*>(png_get_error_ptr(png));
  std::snprintf(self->message, sizeof(self->message), "%s", message);
  std::longjmp(self->escape, 1);
}

void OnWarning(png_structp, png_const_charp) {}

// As libpng's own, but remembers that it failed: libpng's error is nothing but a text.
png_voidp OnAllocate(png_structp png, png_alloc_size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) static_cast<Decoder*>(png_get_mem_ptr(png))->out_of_memory = true;
  return memory;
}

void OnFree(png_structp, png_voidp memory) { std::free(memory); }

void OnRead(png_structp png, png_bytep out, size_t count) {
  auto* self = static_cast<Decoder*>(png_get_io_ptr(png));
  if (count > self->size - self->at) {
    self->out_of_data = true;
    png_error(png, "the file ends");
  }
  std::memcpy(out, self->data + self->at, count);
  if (self->at == self->cut_chunk && count >= 4) {
    const size_t length = self->size - self->at - 8;
    for (int i = 0; i < 4; ++i) out[i] = static_cast<uint8_t>(length >> (24 - 8 * i));
  }
  self->at += count;
}

size_t FindCutChunk(std::string_view encoded) {
  for (size_t at = 8; at + 8 <= encoded.size();) {
    uint32_t length = 0;
    for (int i = 0; i < 4; ++i) length = length << 8 | static_cast<uint8_t>(encoded[at + i]);
    if (length + size_t{8} > encoded.size() - at) return encoded.substr(at + 4, 4) == "IDAT" ? at : kNoChunk;
    at += std::min(encoded.size() - at, length + size_t{12});
  }
  return kNoChunk;
}

// Everything between setjmp and a longjmp: no object here has a destructor. `whole` [height, width, 3] is where the
// rows of an interlaced picture gather.
void Run(Decoder& self, const ImageHeader& header, uint8_t* whole, RowSink& sink) {
  if (setjmp(self.escape) != 0) return;
  png_structp png = self.png;
  png_infop info = self.info;
  // Of the ancillary chunks nothing is used; tRNS, which libpng would expand to alpha only for us to drop it, included.
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, reinterpret_cast<png_const_bytep>("tRNS"), 1);
  png_set_read_fn(png, &self, OnRead);
  png_read_info(png, info);
  const int type = png_get_color_type(png, info);
  const int depth = png_get_bit_depth(png, info);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (type == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
  if (depth == 16) png_set_strip_16(png);  // v >> 8
  if ((type & PNG_COLOR_MASK_ALPHA) != 0) png_set_strip_alpha(png);
  if ((type & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(png);
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  const size_t row_bytes = static_cast<size_t>(header.stored.width) * 3;
  if (png_get_image_height(png, info) != header.stored.height || png_get_rowbytes(png, info) != row_bytes) {
    png_error(png, "its rows are not of the announced size");
  }
  self.started = true;
  for (int pass = 0; pass < passes; ++pass) {
    for (int64_t y = 0; y < header.stored.height; ++y) {
      png_read_row(png, whole != nullptr ? whole + y * row_bytes : sink.Row(y), nullptr);
      if (whole == nullptr) sink.Done(y);
      if (pass == passes - 1) self.rows = y + 1;
    }
  }
  self.finished = true;
}

}  // namespace

DecodeOutcome DecodePng(std::string_view encoded, const ImageHeader& header, bool salvage, RowSink& sink) {
  DecodeOutcome outcome;
  const bool interlaced = header.decoder_bytes != 0;
  RgbImage gathered;
  uint8_t* whole = interlaced ? sink.WholeImage() : nullptr;
  const bool own_whole = interlaced && whole == nullptr;
  if (own_whole) {
    absl::StatusOr<RgbImage> created = RgbImage::Create(header.stored);
    if (!created.ok()) {
      outcome.status = created.status();
      return outcome;
    }
    gathered = *std::move(created);
    whole = gathered.pixels();
  }

  Decoder decoder = {};
  decoder.data = reinterpret_cast<const uint8_t*>(encoded.data());
  decoder.size = encoded.size();
  decoder.cut_chunk = salvage && header.truncated ? FindCutChunk(encoded) : kNoChunk;
  decoder.png =
      png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &decoder, OnError, OnWarning, &decoder, OnAllocate, OnFree);
  if (decoder.png != nullptr) decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info != nullptr) Run(decoder, header, whole, sink);
  png_destroy_read_struct(&decoder.png, &decoder.info, nullptr);

  outcome.started = decoder.started;
  outcome.rows = decoder.rows;
  outcome.truncated = decoder.out_of_data;
  // A file cut behind the chunk of its last pixel is whole enough, for Pillow too.
  if (!decoder.finished && decoder.out_of_memory) {
    outcome.status = absl::ResourceExhaustedError(
        absl::StrCat("no memory to decode a PNG of ", header.stored.width, " x ", header.stored.height, " pixels"));
  } else if (!decoder.finished) {
    outcome.status = absl::InvalidArgumentError(
        decoder.out_of_data ? absl::StrCat("truncated PNG: the file ends after ", encoded.size(), " bytes and ",
                                           decoder.rows, " of ", header.stored.height, " rows")
                            : absl::StrCat("damaged PNG: ", decoder.message));
  }
  if (own_whole && (decoder.finished || salvage)) PushRows(gathered, sink);
  if (interlaced) outcome.rows = header.stored.height;
  return outcome;
}

}  // namespace lion
