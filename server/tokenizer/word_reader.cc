#include "server/tokenizer/word_reader.h"

#include <unicode/utf8.h>

#include <algorithm>

namespace lion {
namespace {

ByteRange RangeOf(size_t begin, size_t end) { return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}; }

// The character at byte `at`, which is then that of the next one.
char32_t NextCode(std::string_view text, size_t& at) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  UChar32 code;
  U8_NEXT_UNSAFE(bytes, at, code);
  return static_cast<char32_t>(code);
}

// The character before byte `at`, which is then its first.
char32_t PreviousCode(std::string_view text, size_t& at) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  UChar32 code;
  U8_PREV_UNSAFE(bytes, at, code);
  return static_cast<char32_t>(code);
}

// A run of combining marks in the making.
struct Mark {
  Characters::Part part;
  bool more;  // not the first that its character became
};

// By combining class, those of equal class as they stand (Unicode's canonical ordering), in linear time.
void SortByCombiningClass(std::vector<Mark>& marks) {
  std::array<size_t, 257> places = {};
  for (const Mark& mark : marks) ++places[mark.part.combining_class + 1u];
  for (size_t i = 1; i < places.size(); ++i) places[i] += places[i - 1];
  std::vector<Mark> sorted(marks.size());
  for (const Mark& mark : marks) sorted[places[mark.part.combining_class]++] = mark;
  marks = std::move(sorted);
}

}  // namespace

AsciiTable::AsciiTable(const Characters& characters) {
  for (size_t code = 0; code < actions.size(); ++code) {
    const Characters::Parts parts = characters.Decompose(static_cast<char32_t>(code));
    letters[code] = static_cast<char>(parts.parts[0].code);
    actions[code] = parts.count == 0                                  ? Action::kDrop
                    : parts.parts[0].kind == CharacterKind::kSpace    ? Action::kSeparate
                    : parts.parts[0].kind == CharacterKind::kIsolated ? Action::kIsolate
                                                                      : Action::kAppend;
  }
}

WordReader::WordReader(const Characters& characters, const AsciiTable& ascii, std::string_view text,
                       int64_t max_code_points, bool ranges)
    : characters_(characters), ascii_(ascii), text_(text), max_code_points_(max_code_points), ranges_(ranges) {}

void WordReader::Reset(size_t begin, size_t end) {
  begin_ = at_ = begin;
  end_ = end;
  units_.clear();
  next_unit_ = 0;
}

bool WordReader::Next(Word& word) {
  word.bytes.clear();
  word.ranges.clear();
  word.too_long = false;
  code_points_ = 0;
  while (true) {
    if (next_unit_ < units_.size()) {
      if (TakeUnits(word)) return true;
    } else if (at_ == end_) {
      return code_points_ > 0;
    } else if (static_cast<uint8_t>(text_[at_]) < 0x80) {
      if (TakeAscii(word)) return true;
    } else {
      ReadCharacter();
    }
  }
}

bool WordReader::TakeAscii(Word& word) {
  while (at_ < end_) {
    const auto byte = static_cast<uint8_t>(text_[at_]);
    if (byte >= 0x80) return false;
    switch (ascii_.actions[byte]) {
      case AsciiTable::Action::kAppend:
        Append({static_cast<char32_t>(ascii_.letters[byte]), CharacterKind::kWord, RangeOf(at_, at_ + 1)}, word);
        ++at_;
        break;
      case AsciiTable::Action::kIsolate:
        if (code_points_ > 0) return true;
        Append({static_cast<char32_t>(ascii_.letters[byte]), CharacterKind::kIsolated, RangeOf(at_, at_ + 1)}, word);
        ++at_;
        return true;
      case AsciiTable::Action::kSeparate:
        ++at_;
        if (code_points_ > 0) return true;
        break;
      case AsciiTable::Action::kDrop:
        ++at_;
        break;
    }
  }
  return false;
}

bool WordReader::TakeUnits(Word& word) {
  for (; next_unit_ < units_.size(); ++next_unit_) {
    const Unit& unit = units_[next_unit_];
    if (unit.kind == CharacterKind::kWord) {
      Append(unit, word);
      continue;
    }
    if (code_points_ > 0) return true;
    if (unit.kind == CharacterKind::kIsolated) {
      Append(unit, word);
      ++next_unit_;
      return true;
    }
  }
  return false;
}

void WordReader::Append(const Unit& unit, Word& word) {
  if (code_points_ == 0) word.range.begin = unit.range.begin;
  word.range.end = unit.range.end;
  if (++code_points_ > max_code_points_) {
    word.too_long = true;
    return;
  }
  if (unit.code < 0x80) {
    word.bytes.push_back(static_cast<char>(unit.code));
  } else {
    char bytes[U8_MAX_LENGTH];
    int size = 0;
    U8_APPEND_UNSAFE(reinterpret_cast<uint8_t*>(bytes), size, unit.code);
    word.bytes.append(bytes, static_cast<size_t>(size));
  }
  if (ranges_) word.ranges.resize(word.bytes.size(), unit.range);
}

void WordReader::ReadCharacter() {
  const size_t at = at_;
  const Characters::Parts parts = characters_.Decompose(NextCode(text_, at_));
  units_.clear();
  next_unit_ = 0;
  for (int i = 0; i < parts.count; ++i) {
    const Characters::Part& part = parts.parts[static_cast<size_t>(i)];
    if (part.nonspacing) continue;
    if (part.combining_class != 0) return ReadCombiningRun(at);
    units_.push_back({part.code, part.kind, RangeOf(at, at_)});
  }
}

// Reads the whole run of combining marks around a mark that is kept, in the character at byte `at`. All marks of the
// run before it are nonspacing, as there would have been no way past another; they matter now, since canonical order
// moves marks while the places that they come from stay: the first mark of the sorted run comes from where the first of
// the text stands, and so on.
void WordReader::ReadCombiningRun(size_t at) {
  size_t begin = at, next = at;
  bool starter_taken = false;
  bool is_mark = characters_.Decompose(NextCode(text_, next)).parts[0].combining_class != 0;
  for (size_t back = at; is_mark && back > begin_;) {
    const Characters::Parts parts = characters_.Decompose(PreviousCode(text_, back));
    if (parts.count == 0) continue;
    begin = back;
    is_mark = parts.parts[0].combining_class != 0;
    starter_taken = !is_mark;
  }

  std::vector<Mark> starters, marks;
  std::vector<ByteRange> places;
  at_ = begin;
  while (at_ < end_) {
    const size_t character = at_;
    const Characters::Parts parts = characters_.Decompose(NextCode(text_, at_));
    if (parts.count == 0) continue;
    if (!places.empty() && parts.parts[0].combining_class == 0) {
      at_ = character;
      break;
    }
    places.push_back(RangeOf(character, at_));
    for (int i = 0; i < parts.count; ++i) {
      const Characters::Part& part = parts.parts[static_cast<size_t>(i)];
      (part.combining_class == 0 ? starters : marks).push_back({part, i > 0});
    }
  }
  SortByCombiningClass(marks);

  units_.clear();
  size_t place = 0;  // one past that of the unit
  for (const auto* list : {&starters, &marks}) {
    for (const Mark& mark : *list) {
      if (!mark.more) ++place;
      if (mark.part.nonspacing || (list == &starters && starter_taken)) continue;
      units_.push_back({mark.part.code, mark.part.kind, places[std::max<size_t>(place, 1) - 1]});
    }
  }
}

}  // namespace lion
