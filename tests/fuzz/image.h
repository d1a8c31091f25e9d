// Images through all that the server does with them: admission from the header, decoding, turning, resizing, cropping.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lion::fuzz {

// An input is an image file and, behind it, kImageOptionBytes that choose how it is preprocessed.
inline constexpr size_t kImageOptionBytes = 4;

// Plans, then preprocesses. Checks that both agree on refusal and size, that every refusal is INVALID_ARGUMENT, and
// that no more memory is taken than was planned.
void PreprocessAsPlanned(const uint8_t* data, size_t size);

}  // namespace lion::fuzz
