// Cuts a text into words the way BERT does: cleaned, decomposed, lower-cased, at white space, punctuation and Chinese
// characters.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/tokenizer/characters.h"
#include "server/tokenizer/combining_run.h"
#include "server/tokenizer/tokenizer.h"

namespace lion {

struct Word {
  std::string bytes;              // UTF-8 after normalisation; of a word that is too long, its beginning alone
  std::vector<ByteRange> ranges;  // [bytes.size()]: where each byte comes from; empty when not wanted
  ByteRange range;                // where the word comes from, from its first character that is kept to its last
  bool too_long = false;
};

// What becomes of ASCII, which is most of most texts.
struct AsciiTable {
  enum class Action : uint8_t { kAppend, kIsolate, kSeparate, kDrop };

  explicit AsciiTable(const Characters& characters);

  std::array<Action, 128> actions;
  std::array<char, 128> letters;
};

// For one thread. What it is made from must outlive it. Time is linear in the text; memory in max_code_points
// alone.
class WordReader {
 public:
  // `text` is valid UTF-8. A word of more than max_code_points is too long. `ranges`: wants Word::ranges. There are no
  // words before Reset.
  WordReader(const Characters& characters, const AsciiTable& ascii, std::string_view text, int64_t max_code_points,
             bool ranges);

  // Goes on with the words of text[begin, end), as if nothing stood around it; ranges count in `text` all the same.
  void Reset(size_t begin, size_t end);

  // The next word; false at the end.
  bool Next(Word& word);

 private:
  // Both return whether the word is whole.
  bool TakeAscii(Word& word);
  bool TakeUnits(Word& word);
  // Whether units_ has one that belongs to no word yet; reads on in the run for it.
  bool HasUnit();
  void ReadCharacter();
  void Append(const Unit& unit, Word& word);

  const Characters& characters_;
  const AsciiTable& ascii_;
  const std::string_view text_;
  const int64_t max_code_points_;
  const bool ranges_;
  size_t begin_ = 0, end_ = 0;
  size_t at_ = 0;            // what is before it has been read
  std::vector<Unit> units_;  // made of what was read last
  size_t next_unit_ = 0;     // the first that belongs to no word yet
  CombiningRun run_;         // where units come from next
  int64_t code_points_ = 0;  // of the word in the making
};

}  // namespace lion
