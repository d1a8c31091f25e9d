// The vocabulary as a trie, and words cut into its longest pieces from left to right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/tokenizer/tokenizer.h"
#include "server/tokenizer/word_reader.h"

namespace lion {

// Immutable: any thread may call any method.
class WordPiece {
 public:
  // All pieces together, in bytes.
  static constexpr size_t kMaxBytes = 8'000'000;

  // pieces[id]; of equal ones the last counts. What begins with `prefix` can stand inside a word, where the prefix is
  // left out. `unknown`: the id of a word that cannot be cut.
  WordPiece(const std::vector<std::string>& pieces, std::string_view prefix, int32_t unknown);

  // Appends the word's ids, and their offsets unless that is null. Time: the word's bytes times those of the longest
  // piece, at most.
  void Split(const Word& word, std::vector<int32_t>& ids, std::vector<ByteRange>* offsets) const;

 private:
  // An edge of the trie and the node that it leads to.
  struct Edge {
    uint32_t key;   // node and byte that it leaves from
    uint32_t node;  // that it leads to
    int32_t id;     // of the piece that ends there; -1: none does
  };
  static constexpr uint32_t kFirst = 0, kInside = 1;  // where pieces begin
  static constexpr uint32_t kNoKey = UINT32_MAX;
  // Even if every piece can stand in both places and shares no byte with another.
  static_assert(kInside + 2 * kMaxBytes < kNoKey >> 8, "a key must hold the last node");

  void Insert(uint32_t node, std::string_view piece, int32_t id);
  Edge& Place(uint32_t key);
  const Edge* Find(uint32_t node, char byte) const;
  size_t Hash(uint32_t key) const { return static_cast<uint32_t>(key * 0x9E3779B1u) >> shift_; }
  void Grow();

  std::vector<Edge> edges_;  // open addressing: at Hash(key), or after it
  int shift_;
  uint32_t nodes_ = 2;
  int32_t unknown_;
};

}  // namespace lion
