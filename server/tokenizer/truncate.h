// How many tokens of a pair of texts are kept.
#pragma once

#include <cstdint>

namespace lion {

struct PairLengths {
  int64_t first = 0;
  int64_t second = 0;
};

// Texts of these lengths cut to `room` together, always the longer one, token by token. Where both end up at half of
// the room, an odd token goes to the one that was longer; to the second, if none was.
PairLengths CutLongest(PairLengths lengths, int64_t room);

}  // namespace lion
