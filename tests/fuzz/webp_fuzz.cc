// A WebP file; and that our reading of a lossless one, before libwebp's, goes as far as libwebp's.
#include "server/image/decode.h"
#include "server/image/webp_lossless.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lion;
  fuzz::PreprocessAsPlanned(data, size);

  constexpr size_t kBitstream = 20;  // of a file without other chunks
  const std::string_view file = fuzz::AsText(data, size);
  if (size < kBitstream || file.substr(8, 8) != "WEBPVP8L") return 0;
  const int64_t groups = CountPrefixCodeGroups(file.substr(kBitstream));
  const bool decodes = DecodeImage(file, {.max_pixels = 1 << 15}).ok();
  fuzz::Check(groups > 0 || !decodes, "a picture that libwebp decodes has groups of prefix codes");
  fuzz::Check(groups <= kMaxPrefixCodeGroups || !decodes, "a picture with too many groups is refused");
  return 0;
}
