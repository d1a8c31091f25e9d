// Tokenizers from files that a test writes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/tokenizer/tokenizer.h"
#include "tests/model_loader/test_files.h"

namespace lion::testing {

// Ids 0 to 4, as in BERT's own.
inline const std::string kSpecialTokens = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";

// From vocab.txt of the special tokens and these lines, and tokenizer_config.json unless that is empty.
inline std::unique_ptr<Tokenizer> MakeTokenizer(const std::string& lines, const std::string& config = "") {
  const TempFolder folder;
  folder.Write("vocab.txt", kSpecialTokens + lines);
  if (!config.empty()) folder.Write("tokenizer_config.json", config);
  auto tokenizer = Tokenizer::Load(folder.path());
  if (!tokenizer.ok()) throw std::runtime_error(tokenizer.status().ToString());
  return std::move(*tokenizer);
}

// The tokens of a text, special ones too where the options want them.
inline std::vector<std::string> Tokens(const Tokenizer& tokenizer, std::string_view text,
                                       const EncodeOptions& options = {.special_tokens = false}) {
  const auto encoding = tokenizer.Encode(text, std::nullopt, options);
  if (!encoding.ok()) return {encoding.status().ToString()};
  std::vector<std::string> tokens;
  for (const int32_t id : encoding->ids) tokens.emplace_back(tokenizer.TokenText(id));
  return tokens;
}

// "1-3" for each token.
inline std::vector<std::string> Offsets(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = {}) {
  options.offsets = true;
  const auto encoding = tokenizer.Encode(text, std::nullopt, options);
  if (!encoding.ok()) return {encoding.status().ToString()};
  std::vector<std::string> offsets;
  for (const ByteRange& range : encoding->offsets) {
    offsets.push_back(std::to_string(range.begin) + "-" + std::to_string(range.end));
  }
  return offsets;
}

}  // namespace lion::testing
