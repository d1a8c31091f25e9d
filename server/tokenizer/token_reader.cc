#include "server/tokenizer/token_reader.h"

#include <unicode/uchar.h>

#include <algorithm>

#include "server/tokenizer/code_points.h"

namespace lion {
namespace {

// The end of the white space that begins at byte `at`.
size_t SpaceEnd(std::string_view text, size_t at) {
  for (size_t next = at; at < text.size(); at = next) {
    if (!u_isUWhiteSpace(static_cast<UChar32>(NextCode(text, next)))) break;
  }
  return at;
}

// The beginning, not before `begin`, of the white space that ends at byte `at`.
size_t SpaceBegin(std::string_view text, size_t begin, size_t at) {
  for (size_t previous = at; at > begin; at = previous) {
    if (!u_isUWhiteSpace(static_cast<UChar32>(PreviousCode(text, previous)))) break;
  }
  return at;
}

}  // namespace

TokenizerTables::TokenizerTables(const TokenizerSettings& tokenizer_settings, const Characters& rules)
    : settings(tokenizer_settings),
      characters(rules),
      ascii(characters),
      word_piece(settings.pieces, settings.continuing_prefix, settings.unknown_id) {}

TokenReader::TokenReader(const TokenizerTables& tables, std::string_view text, const TokenWindow& window,
                         bool mask_in_text, bool offsets)
    : tables_(tables),
      text_(text),
      window_(window),
      mask_(mask_in_text && tables.settings.mask
                ? std::string_view(tables.settings.pieces[static_cast<size_t>(tables.settings.mask->id)])
                : std::string_view()),
      wants_offsets_(offsets),
      words_(tables.characters, tables.ascii, text, tables.settings.max_word_code_points, offsets) {
  ReadSegment(0);
}

void TokenReader::ReadSegment(size_t begin) {
  segment_ = begin;
  mask_at_ = mask_.empty() ? text_.size() : std::min(text_.find(mask_, begin), text_.size());
  words_.Reset(begin, mask_at_);
}

bool TokenReader::Next() {
  if (words_.Next(word_)) {
    tables_.word_piece.Split(word_, ids_, wants_offsets_ ? &offsets_ : nullptr);
  } else if (mask_at_ < text_.size()) {
    ReadMask();
  } else {
    return false;
  }
  DropPassed();
  return true;
}

void TokenReader::ReadMask() {
  const MaskToken& mask = *tables_.settings.mask;
  const size_t begin = mask.lstrip ? SpaceBegin(text_, segment_, mask_at_) : mask_at_;
  const size_t end = mask.rstrip ? SpaceEnd(text_, mask_at_ + mask_.size()) : mask_at_ + mask_.size();
  ids_.push_back(mask.id);
  if (wants_offsets_) offsets_.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
  ReadSegment(end);
}

void TokenReader::DropPassed() {
  const auto held = static_cast<int64_t>(ids_.size());
  if (held <= window_.size) return;
  if (window_.at_end && held - window_.size < window_.size) return;
  const int64_t passed = held - window_.size;
  dropped_ += passed;
  const auto drop = [this, passed](auto& list) {
    if (list.empty()) return;
    const auto begin = window_.at_end ? list.begin() : list.end() - passed;
    list.erase(begin, begin + passed);
  };
  drop(ids_);
  drop(offsets_);
}

}  // namespace lion
