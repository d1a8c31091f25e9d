// Texts: from UTF-8 or from token ids.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "server/input_preparer.h"

namespace lion {

// The most tokens of one input, and what sets it, for messages.
struct TokenLimit {
  int64_t tokens = 0;
  std::string source;  // "--max-input-tokens"
};

// For a server that allows `max_input_tokens`; `asked_tokens` is what it was told to allow, 0: nothing. The model's own
// limits always count, the tokenizer's where nothing was asked for.
TokenLimit LimitOfTexts(const ModelConfig& config, const Tokenizer* tokenizer, int64_t asked_tokens,
                        int64_t max_input_tokens);

// Of a model: "has no ...".
inline constexpr char kNoTokenizer[] = "tokenizer: there is neither tokenizer.json nor vocab.txt beside its weights";

class TextPreparer : public InputPreparer {
 public:
  // `tokenizer`: null for a model without its files; texts are then refused. `max_text_bytes`: of one text. Calls that
  // want predictions need a tokenizer with a mask token.
  TextPreparer(const Engine* engine, const Tokenizer* tokenizer, TokenLimit limit, int64_t max_text_bytes,
               PreparePool* pool)
      : engine_(engine),
        tokenizer_(tokenizer),
        limit_(std::move(limit)),
        max_text_bytes_(max_text_bytes),
        pool_(pool) {}

  // Token ids are ready then; of a text only its length is known.
  absl::StatusOr<InputCost> Check(const InferenceCall& call, const InferenceInput& input,
                                  PreparedInput* prepared) const override;
  absl::StatusOr<PreparedInput> Prepare(const InferenceCall& call, const InferenceInput& input) const override;
  PreparePool* pool() const override { return pool_; }
  // 128 tokens, or as many as there may be.
  absl::StatusOr<PreparedInput> Blank() const override;

 private:
  absl::StatusOr<InputCost> CheckText(const InferenceCall& call, const TextOrPair& text) const;
  absl::StatusOr<InputCost> CheckTokens(const InferenceCall& call, const GivenTokens& tokens,
                                        PreparedInput* prepared) const;
  // The places of the masks, where the call wants to know what they hide. INVALID_ARGUMENT: there is none.
  absl::Status FindMasks(const InferenceCall& call, PreparedInput* prepared) const;

  const Engine* const engine_;
  const Tokenizer* const tokenizer_;
  const TokenLimit limit_;
  const int64_t max_text_bytes_;
  PreparePool* const pool_;
};

}  // namespace lion
