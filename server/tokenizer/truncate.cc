#include "server/tokenizer/truncate.h"

#include <algorithm>

namespace lion {

PairLengths CutLongest(PairLengths lengths, int64_t room) {
  const int64_t shorter = std::min(lengths.first, lengths.second);
  const int64_t longer = std::max(lengths.first, lengths.second);
  if (longer <= room - shorter) return lengths;
  const int64_t kept_of_shorter = std::min(shorter, room / 2);
  const int64_t kept_of_longer = room - kept_of_shorter;
  if (lengths.first > lengths.second) return {kept_of_longer, kept_of_shorter};
  return {kept_of_shorter, kept_of_longer};
}

}  // namespace lion
