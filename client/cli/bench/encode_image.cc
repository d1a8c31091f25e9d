#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>  // needs <cstddef> and <cstdio> before it
#include <png.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/bench/synthetic_image.h"

namespace lion::bench {
namespace {

constexpr int kJpegQuality = 90;

std::vector<uint8_t> Interleave(const Pixels& image) {
  const size_t plane = image.planes.size() / 3;
  std::vector<uint8_t> pixels(image.planes.size());
  for (size_t i = 0; i < plane; ++i) {
    for (size_t channel = 0; channel < 3; ++channel) {
      pixels[3 * i + channel] = static_cast<uint8_t>(image.planes[channel * plane + i]);
    }
  }
  return pixels;
}

// libjpeg's state with ours behind it. `errors.error_exit` jumps back to `escape`.
struct Encoder {
  jpeg_compress_struct jpeg;
  jpeg_error_mgr errors;
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX];
  unsigned char* bytes;  // made by libjpeg with malloc
  unsigned long size;
};

[[noreturn]] void OnError(j_common_ptr jpeg) {
  auto* const self = static_cast<Encoder*>(jpeg->client_data);
  jpeg->err->format_message(jpeg, self->message);
  std::longjmp(self->escape, 1);
}

// False: `message` says why. Nothing in here has a destructor, which a jump would pass over.
bool Compress(Encoder& self, int64_t width, int64_t height, const uint8_t* pixels) {
  if (setjmp(self.escape) != 0) return false;
  jpeg_create_compress(&self.jpeg);
  self.jpeg.client_data = &self;
  jpeg_mem_dest(&self.jpeg, &self.bytes, &self.size);
  self.jpeg.image_width = static_cast<JDIMENSION>(width);
  self.jpeg.image_height = static_cast<JDIMENSION>(height);
  self.jpeg.input_components = 3;
  self.jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&self.jpeg);
  jpeg_set_quality(&self.jpeg, kJpegQuality, TRUE);
  jpeg_start_compress(&self.jpeg, TRUE);
  while (self.jpeg.next_scanline < self.jpeg.image_height) {
    auto* row = const_cast<JSAMPROW>(pixels + int64_t{3} * width * self.jpeg.next_scanline);
    jpeg_write_scanlines(&self.jpeg, &row, 1);
  }
  jpeg_finish_compress(&self.jpeg);
  return true;
}

}  // namespace

absl::StatusOr<std::string> EncodePng(const Pixels& image) {
  const std::vector<uint8_t> pixels = Interleave(image);
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::string bytes(size, '\0');
  const bool written = png_image_write_to_memory(&png, bytes.data(), &size, 0, pixels.data(), 0, nullptr) != 0;
  bytes.resize(written ? size : 0);
  if (written) return bytes;
  absl::Status status = absl::InternalError(absl::StrCat("cannot write a PNG: ", png.message));
  png_image_free(&png);
  return status;
}

absl::StatusOr<std::string> EncodeJpeg(const Pixels& image) {
  const std::vector<uint8_t> pixels = Interleave(image);
  Encoder self = {};
  self.jpeg.err = jpeg_std_error(&self.errors);
  self.jpeg.client_data = &self;
  self.errors.error_exit = OnError;
  const bool written = Compress(self, image.width, image.height, pixels.data());
  absl::StatusOr<std::string> result;
  if (written) {
    result = std::string(reinterpret_cast<const char*>(self.bytes), self.size);
  } else {
    result = absl::InternalError(absl::StrCat("cannot write a JPEG: ", self.message));
  }
  jpeg_destroy_compress(&self.jpeg);
  std::free(self.bytes);
  return result;
}

}  // namespace lion::bench
