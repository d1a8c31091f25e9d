#include "server/tokenizer/word_piece.h"

namespace lion {

WordPiece::WordPiece(const std::vector<std::string>& pieces, std::string_view prefix, int32_t unknown)
    : edges_(16, Edge{kNoKey, 0, -1}), shift_(32 - 4), unknown_(unknown) {
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string_view piece = pieces[i];
    const auto id = static_cast<int32_t>(i);
    Insert(kFirst, piece, id);
    if (piece.substr(0, prefix.size()) == prefix) Insert(kInside, piece.substr(prefix.size()), id);
  }
}

WordPiece::Edge& WordPiece::Place(uint32_t key) {
  size_t at = Hash(key);
  while (edges_[at].key != key && edges_[at].key != kNoKey) at = (at + 1) & (edges_.size() - 1);
  return edges_[at];
}

void WordPiece::Grow() {
  std::vector<Edge> old(edges_.size() * 2, Edge{kNoKey, 0, -1});
  old.swap(edges_);
  --shift_;
  for (const Edge& edge : old) {
    if (edge.key != kNoKey) Place(edge.key) = edge;
  }
}

void WordPiece::Insert(uint32_t node, std::string_view piece, int32_t id) {
  for (size_t i = 0; i < piece.size(); ++i) {
    if (nodes_ * size_t{2} > edges_.size()) Grow();
    const uint32_t key = node << 8 | static_cast<uint8_t>(piece[i]);
    Edge& edge = Place(key);
    if (edge.key == kNoKey) edge = {key, nodes_++, -1};
    if (i + 1 == piece.size()) edge.id = id;
    node = edge.node;
  }
}

const WordPiece::Edge* WordPiece::Find(uint32_t node, char byte) const {
  const uint32_t key = node << 8 | static_cast<uint8_t>(byte);
  for (size_t at = Hash(key);; at = (at + 1) & (edges_.size() - 1)) {
    if (edges_[at].key == key) return &edges_[at];
    if (edges_[at].key == kNoKey) return nullptr;
  }
}

void WordPiece::Split(const Word& word, std::vector<int32_t>& ids, std::vector<ByteRange>* offsets) const {
  const size_t known = ids.size();
  const std::string_view bytes = word.bytes;
  size_t begin = word.too_long ? bytes.size() : 0;
  bool whole = !word.too_long;
  while (begin < bytes.size()) {
    size_t end = begin;
    int32_t id = -1;
    const Edge* edge;
    uint32_t node = begin == 0 ? kFirst : kInside;
    for (size_t i = begin; i < bytes.size() && (edge = Find(node, bytes[i])) != nullptr; ++i) {
      node = edge->node;
      if (edge->id >= 0) {
        id = edge->id;
        end = i + 1;
      }
    }
    if (id < 0) {
      whole = false;
      break;
    }
    ids.push_back(id);
    if (offsets != nullptr) offsets->push_back({word.ranges[begin].begin, word.ranges[end - 1].end});
    begin = end;
  }
  if (whole) return;
  ids.resize(known);
  ids.push_back(unknown_);
  if (offsets == nullptr) return;
  offsets->resize(known);
  offsets->push_back(word.range);
}

}  // namespace lion
