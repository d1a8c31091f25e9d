#include "server/tokenizer/combining_run.h"

#include <algorithm>

#include "server/tokenizer/code_points.h"

namespace lion {

size_t CombiningRun::Start(size_t begin, size_t at, size_t end) {
  size_t next = at;
  bool starter_taken = false;
  bool is_mark = characters_.Decompose(NextCode(text_, next)).parts[0].combining_class != 0;
  begin_ = at;
  for (size_t back = at; is_mark && back > begin;) {
    const Characters::Parts parts = characters_.Decompose(PreviousCode(text_, back));
    if (parts.count == 0) continue;
    begin_ = back;
    is_mark = parts.parts[0].combining_class != 0;
    starter_taken = !is_mark;
  }
  Count(end);
  if (starter_taken) classes_[0].kept = 0;
  class_ = -1;
  kept_ = sorted_end_ = 0;
  place_at_ = begin_;
  places_ = 0;
  return end_;
}

void CombiningRun::Count(size_t end) {
  classes_.fill({});
  bool empty = true;
  for (end_ = begin_; end_ < end;) {
    size_t next = end_;
    const Characters::Parts parts = characters_.Decompose(NextCode(text_, next));
    if (parts.count > 0) {
      if (!empty && parts.parts[0].combining_class == 0) return;
      empty = false;
      ++classes_[parts.parts[0].combining_class].characters;
    }
    for (int i = 0; i < parts.count; ++i) {
      const Characters::Part& part = parts.parts[static_cast<size_t>(i)];
      if (!part.nonspacing) ++classes_[part.combining_class].kept;
    }
    end_ = next;
  }
}

bool CombiningRun::NextClass() {
  while (class_ < kClasses && ++class_ < kClasses) {
    const Class& next = classes_[static_cast<size_t>(class_)];
    sorted_ = sorted_end_;
    sorted_end_ += next.characters;
    kept_ = next.kept;
    at_ = begin_;
    next_part_ = parts_.count = 0;
    if (kept_ > 0) return true;
  }
  return false;
}

ByteRange CombiningRun::Place(uint32_t index) {
  while (places_ <= index) {
    const size_t begin = place_at_;
    if (characters_.Decompose(NextCode(text_, place_at_)).count == 0) continue;
    place_ = {static_cast<uint32_t>(begin), static_cast<uint32_t>(place_at_)};
    ++places_;
  }
  return place_;
}

bool CombiningRun::Next(Unit& unit) {
  while (kept_ > 0 || NextClass()) {
    if (next_part_ == parts_.count) {
      parts_ = characters_.Decompose(NextCode(text_, at_));
      next_part_ = 0;
      continue;
    }
    const Characters::Part& part = parts_.parts[static_cast<size_t>(next_part_)];
    const bool is_first = next_part_++ == 0;
    if (part.combining_class != class_) continue;
    if (is_first) ++sorted_;
    if (part.nonspacing) continue;
    --kept_;
    unit = {part.code, part.kind, Place(std::max(sorted_, 1u) - 1)};
    return true;
  }
  return false;
}

}  // namespace lion
