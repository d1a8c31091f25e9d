#include "server/tokenizer/word_reader.h"

#include <unicode/utf8.h>

#include "server/tokenizer/code_points.h"

namespace lion {
namespace {

ByteRange RangeOf(size_t begin, size_t end) { return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}; }

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
    : characters_(characters),
      ascii_(ascii),
      text_(text),
      max_code_points_(max_code_points),
      ranges_(ranges),
      run_(characters, text) {}

void WordReader::Reset(size_t begin, size_t end) {
  begin_ = at_ = begin;
  end_ = end;
  units_.clear();
  next_unit_ = 0;
  run_.Drop();
}

bool WordReader::Next(Word& word) {
  word.bytes.clear();
  word.ranges.clear();
  word.too_long = false;
  code_points_ = 0;
  while (true) {
    if (HasUnit()) {
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

bool WordReader::HasUnit() {
  if (next_unit_ < units_.size()) return true;
  Unit unit;
  if (!run_.Next(unit)) return false;
  units_ = {unit};
  next_unit_ = 0;
  return true;
}

bool WordReader::TakeUnits(Word& word) {
  for (; HasUnit(); ++next_unit_) {
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
    if (part.combining_class != 0) {
      units_.clear();
      at_ = run_.Start(begin_, at, end_);
      return;
    }
    units_.push_back({part.code, part.kind, RangeOf(at, at_)});
  }
}

}  // namespace lion
