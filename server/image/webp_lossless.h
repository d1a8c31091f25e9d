// What a lossless WebP bitstream asks of libwebp's memory beyond its pixels (RFC 9649, section 3).
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/image/image.h"

namespace lion {

// Each group of prefix codes costs libwebp a table of fixed size, and a picture of a few kilobytes may name 65,536 of
// them: over a gigabyte. libwebp's encoder writes at most this many.
inline constexpr int64_t kMaxPrefixCodeGroups = 2600;

// Bytes that libwebp takes for the groups that a picture of this size within the limit can have.
int64_t PrefixCodeBytes(ImageSize size);

// INVALID_ARGUMENT where one of the lossless bitstreams in `chunks` has more groups. `chunks` is what an image of
// `size` consists of: RIFF chunks VP8L, or ALPH and VP8, among others; also cut off or broken, which is for libwebp to
// say. As much memory as a quarter of the pixels' is taken meanwhile.
absl::Status CheckPrefixCodeGroups(std::string_view chunks, ImageSize size);

// For the first VP8L bitstream, from its signature on. 0: it ends or is broken before that is known.
int64_t CountPrefixCodeGroups(std::string_view vp8l);

}  // namespace lion
