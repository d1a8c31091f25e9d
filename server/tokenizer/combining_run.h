// A run of combining marks in Unicode's canonical order, read from the text itself however long it is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "server/tokenizer/characters.h"
#include "server/tokenizer/tokenizer.h"

namespace lion {

// A character after normalisation.
struct Unit {
  char32_t code = 0;
  CharacterKind kind = CharacterKind::kWord;
  ByteRange range;  // where it comes from
};

// For one thread. What it is made from must outlive it. Memory: that of the object, whatever the run. Time: linear in
// the run, which is read once for each combining class that has a mark to be kept (Unicode has five), and thrice more.
//
// Canonical order moves marks while the places that they come from stay: the first mark of the sorted run comes from
// where the first of the text stands, and so on.
class CombiningRun {
 public:
  // `text` is valid UTF-8. There is no run before Start.
  CombiningRun(const Characters& characters, std::string_view text) : characters_(characters), text_(text) {}

  // Finds the whole run, within text[begin, end), around a mark that is kept, in the character at byte `at`, and
  // returns its end. All marks before `at` must be nonspacing, and so must be those of the character that they stand
  // on, the rest of which counts as taken.
  size_t Start(size_t begin, size_t at, size_t end);

  // The run's next character that is kept; false at its end.
  bool Next(Unit& unit);

  // There is no run any more.
  void Drop() {
    class_ = kClasses;
    kept_ = 0;
  }

 private:
  static constexpr int kClasses = 256;  // 0: no mark
  struct Class {
    uint32_t characters = 0;  // those whose first part is of the class
    uint32_t kept = 0;        // parts that are not dropped
  };

  void Count(size_t end);
  bool NextClass();
  ByteRange Place(uint32_t index);

  const Characters& characters_;
  const std::string_view text_;
  size_t begin_ = 0, end_ = 0;
  std::array<Class, kClasses> classes_;
  int class_ = kClasses;     // whose parts are being read
  uint32_t kept_ = 0;        // of them, those that are still to come
  uint32_t sorted_ = 0;      // characters up to here in the order of their first parts
  uint32_t sorted_end_ = 0;  // and up to the next class
  size_t at_ = 0;            // what is before it has been read for the class
  Characters::Parts parts_;  // of the character before it
  int next_part_ = 0;        // the first of them that has not been looked at
  size_t place_at_ = 0;      // what is before it has been read for places
  uint32_t places_ = 0;      // in it
  ByteRange place_;          // the last of them
};

}  // namespace lion
