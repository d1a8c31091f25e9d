// BERT's WordPiece tokenizer, from the files that training wrote beside the weights.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lion {

enum class TextTruncation : uint8_t {
  kNone,  // a text that is too long is an error
  // The end is cut; of a pair, the longer one's, token by token. When both come down to equal length, an odd token is
  // left to the one that was longer; to the second, if none was.
  kEnd,
  kStart,  // the start is cut, likewise
};

struct EncodeOptions {
  bool special_tokens = true;  // [CLS] first [SEP] (second [SEP]); false: the text's own tokens alone
  // "[MASK]" in a text is the mask token; otherwise it is text like any other, as every other special token always is.
  bool mask_token_in_text = false;
  int64_t max_tokens = 0;  // special tokens included; 0: any number
  TextTruncation truncation = TextTruncation::kNone;
  bool offsets = false;  // wants Encoding::offsets
};

// Where a token stands: bytes of the UTF-8 of its own text, end exclusive. Special tokens: 0, 0.
struct ByteRange {
  uint32_t begin = 0;
  uint32_t end = 0;
};

struct Encoding {
  std::vector<int32_t> ids;        // [L]
  std::vector<int32_t> type_ids;   // [L]: 1 for the second text and its [SEP], otherwise 0
  std::vector<ByteRange> offsets;  // [L], or empty when they were not asked for
  bool truncated = false;
};

// Immutable: any thread may call any method. Time is linear in the length of the text, whatever it holds; memory, in
// the tokens: those of the encoding, or twice max_tokens if that is less. Truncating at the end stops reading once
// enough tokens are there; of a pair with an odd number of tokens to share, once the shorter text is read. All of a
// text is checked to be UTF-8.
//
// Ids and offsets are those of the package `tokenizers` with encode_special_tokens, but for characters whose properties
// have changed between its version of Unicode and ICU's (scripts/acceptance/tokenizer.sh lists them).
class Tokenizer {
 public:
  // From tokenizer.json, else vocab.txt with the settings of tokenizer_config.json, in `folder`. NOT_FOUND: neither is
  // there. INVALID_ARGUMENT, naming file and key: a file that is malformed or asks for something that is not WordPiece
  // as BERT has it; no [UNK], [CLS] or [SEP]; settings of tokenizer_config.json that contradict tokenizer.json. That
  // file's mask_token and model_max_length count for both; without it the mask token is [MASK].
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& folder);
  virtual ~Tokenizer() = default;

  // INVALID_ARGUMENT: not UTF-8; longer than max_tokens with kNone (naming both numbers); max_tokens has no room for
  // the special tokens. A text that holds nothing but what is cleaned away is its special tokens alone.
  virtual absl::StatusOr<Encoding> Encode(std::string_view first, std::optional<std::string_view> second,
                                          const EncodeOptions& options) const = 0;

  // The text that tokens stand for: words with a space between them and none before ".", "?", "!" and ",". Spaces, case
  // and accents that Encode took away do not come back. `skip_special`: without special tokens, [UNK] among them.
  // INVALID_ARGUMENT: an id that the vocabulary does not have.
  virtual absl::StatusOr<std::string> Decode(std::span<const uint32_t> ids, bool skip_special) const = 0;

  // As in the vocabulary, "##" kept; empty for an id it does not have. Lives as long as the tokenizer.
  virtual std::string_view TokenText(int32_t id) const = 0;
  virtual int64_t vocabulary() const = 0;              // ids are 0 .. vocabulary() - 1
  virtual std::optional<int32_t> mask_id() const = 0;  // no value: the vocabulary has no mask token
  // The longest text by the tokenizer's own files (model_max_length, else the truncation of
  // tokenizer.json), special tokens included; 0: they name none.
  virtual int64_t max_tokens() const = 0;
};

}  // namespace lion
