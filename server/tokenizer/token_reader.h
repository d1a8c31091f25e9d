// A text's tokens in order, word by word.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "server/tokenizer/tokenizer_settings.h"
#include "server/tokenizer/word_piece.h"
#include "server/tokenizer/word_reader.h"

namespace lion {

// All that readers share. Immutable.
struct TokenizerTables {
  TokenizerTables(const TokenizerSettings& tokenizer_settings, const Characters& rules);

  TokenizerSettings settings;
  Characters characters;
  AsciiTable ascii;
  WordPiece word_piece;
};

// Which tokens of a text a reader keeps.
struct TokenWindow {
  int64_t size = INT64_MAX;
  bool at_end = false;  // the last ones, otherwise the first
};

// For one thread; tables and text outlive it. Memory: twice the window, or all tokens if they are fewer.
class TokenReader {
 public:
  // `mask_in_text`: where the mask token's name stands it is that token.
  TokenReader(const TokenizerTables& tables, std::string_view text, const TokenWindow& window, bool mask_in_text,
              bool offsets);

  // Reads the next word's tokens; false at the end of the text.
  bool Next();

  int64_t count() const { return dropped_ + static_cast<int64_t>(ids_.size()); }  // read so far
  // Those in the window, and as many before them that it has passed by.
  const std::vector<int32_t>& ids() const { return ids_; }
  const std::vector<ByteRange>& offsets() const { return offsets_; }  // empty when not wanted

 private:
  bool ReadWordOrMask();
  void ReadMask();
  void ReadSegment(size_t begin);
  void DropPassed();

  const TokenizerTables& tables_;
  const std::string_view text_;
  const TokenWindow window_;
  const std::string_view mask_;  // empty: not to be found
  const bool wants_offsets_;
  WordReader words_;    // of the text up to the next mask
  size_t mask_at_ = 0;  // where that stands; text_.size(): nowhere
  size_t segment_ = 0;  // where the words begin
  Word word_;
  std::vector<int32_t> ids_;
  std::vector<ByteRange> offsets_;
  int64_t dropped_ = 0;
};

}  // namespace lion
