#include "tests/fuzz/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lion::fuzz::PreprocessAsPlanned(data, size);
  return 0;
}
