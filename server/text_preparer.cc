#include "server/text_preparer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lion {
namespace {

constexpr int64_t kBlankTokens = 128;

int64_t Bytes(const TextOrPair& text) {
  return static_cast<int64_t>(text.first.size() + (text.second.has_value() ? text.second->size() : 0));
}

// [CLS] first [SEP] (second [SEP])
int64_t SpecialTokens(const TextOrPair& text) { return text.second.has_value() ? 3 : 2; }

// memmem, because it is fast whatever the text: this is on one of gRPC's threads.
int64_t Count(std::string_view text, std::string_view word) {
  int64_t count = 0;
  while (!text.empty()) {
    const void* const found = memmem(text.data(), text.size(), word.data(), word.size());
    if (found == nullptr) break;
    ++count;
    text.remove_prefix(static_cast<size_t>(static_cast<const char*>(found) - text.data()) + word.size());
  }
  return count;
}

int64_t CountMasks(const TextOrPair& text, std::string_view mask) {
  return Count(text.first, mask) + Count(text.second.value_or(std::string_view()), mask);
}

// In int32, as the engine takes them; whether there are such ids is checked later. `what`: "ids".
absl::Status Narrow(std::span<const int64_t> given, const char* what, std::vector<int32_t>* out) {
  out->reserve(given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] < 0 || given[i] > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokens.", what, "[", i, "] is ", given[i], ", which no model has"));
    }
    out->push_back(static_cast<int32_t>(given[i]));
  }
  return absl::OkStatus();
}

}  // namespace

TokenLimit LimitOfTexts(const ModelConfig& config, const Tokenizer* tokenizer, int64_t asked_tokens,
                        int64_t max_input_tokens) {
  TokenLimit limit = {max_input_tokens, "--max-input-tokens"};
  const auto lower = [&limit](int64_t tokens, const char* source) {
    if (tokens > 0 && tokens < limit.tokens) limit = {tokens, source};
  };
  if (tokenizer != nullptr && asked_tokens == 0) {
    lower(tokenizer->max_tokens(), "the tokenizer's model_max_length; --max-input-tokens may allow more");
  }
  lower(config.max_tokens, "the length the model was made for");
  lower(config.max_positions, "the model's positions");
  return limit;
}

absl::StatusOr<InputCost> TextPreparer::Check(const InferenceCall& call, const InferenceInput& input,
                                              PreparedInput* prepared) const {
  if (!input.status.ok()) return input.status;
  if (input.text.has_value()) return CheckText(call, *input.text);
  if (input.tokens.has_value()) return CheckTokens(call, *input.tokens, prepared);
  return absl::InvalidArgumentError("the model takes text, and there is none");
}

absl::StatusOr<InputCost> TextPreparer::CheckText(const InferenceCall& call, const TextOrPair& text) const {
  if (tokenizer_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("a text was given, but the model has no ", kNoTokenizer, "; token ids work (tokens)"));
  }
  if (text.first.empty()) {
    return absl::InvalidArgumentError(text.second.has_value() ? "the pair's first text is empty: 0 bytes"
                                                              : "the text is empty: 0 bytes");
  }
  for (const std::string_view part : {text.first, text.second.value_or(std::string_view())}) {
    if (static_cast<int64_t>(part.size()) > max_text_bytes_) {
      return absl::InvalidArgumentError(
          absl::StrCat("a text of ", part.size(), " bytes: the limit is ", max_text_bytes_, " (--max-text-bytes)"));
    }
  }
  InputCost cost;
  cost.work = Bytes(text);
  if (call.encoding) {
    // What is not computed needs no more than a place.
    cost.least_tokens = cost.most_tokens = 1;
    return cost;
  }
  // A token takes at least a byte of the text.
  cost.least_tokens = std::min(SpecialTokens(text), limit_.tokens);
  cost.most_tokens = std::min(cost.work + SpecialTokens(text), limit_.tokens);
  if (call.predictions > 0) {
    cost.most_masks = std::min(CountMasks(text, tokenizer_->TokenText(*tokenizer_->mask_id())), limit_.tokens);
  }
  return cost;
}

absl::StatusOr<InputCost> TextPreparer::CheckTokens(const InferenceCall& call, const GivenTokens& tokens,
                                                    PreparedInput* prepared) const {
  const auto count = static_cast<int64_t>(tokens.ids.size());
  if (count > limit_.tokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("the input has ", count, " tokens, the limit is ", limit_.tokens, " (", limit_.source, ")"));
  }
  if (absl::Status status = Narrow(tokens.ids, "ids", &prepared->encoding.ids); !status.ok()) return status;
  if (absl::Status status = Narrow(tokens.type_ids, "type_ids", &prepared->encoding.type_ids); !status.ok()) {
    return status;
  }
  if (absl::Status status = engine_->CheckText(prepared->text()); !status.ok()) return status;
  if (absl::Status status = FindMasks(call, prepared); !status.ok()) return status;
  prepared->tokens = count;
  InputCost cost;
  cost.least_tokens = cost.most_tokens = count;
  cost.most_masks = static_cast<int64_t>(prepared->masked.size());
  cost.ready = true;
  return cost;
}

absl::StatusOr<PreparedInput> TextPreparer::Prepare(const InferenceCall& call, const InferenceInput& input) const {
  const EncodeOptions options = {.special_tokens = call.text.special_tokens,
                                 .mask_token_in_text = call.predictions > 0,
                                 .max_tokens = call.encoding ? 0 : limit_.tokens,
                                 .truncation = call.text.truncation,
                                 .offsets = call.encoding};
  absl::StatusOr<Encoding> encoding = tokenizer_->Encode(input.text->first, input.text->second, options);
  if (!encoding.ok()) {
    if (options.max_tokens == 0) return encoding.status();
    return absl::Status(encoding.status().code(), absl::StrCat(encoding.status().message(), " (", limit_.source, ")"));
  }
  PreparedInput prepared;
  prepared.encoding = *std::move(encoding);
  prepared.tokens = static_cast<int64_t>(prepared.encoding.ids.size());
  if (call.encoding) return prepared;
  if (absl::Status status = engine_->CheckText(prepared.text()); !status.ok()) return status;
  if (absl::Status status = FindMasks(call, &prepared); !status.ok()) return status;
  if (call.predictions == 0) return prepared;
  // A tokenizer may have a mask token that words become too; the reply has room for what CheckText counted.
  const std::string_view mask = tokenizer_->TokenText(*tokenizer_->mask_id());
  const int64_t named = CountMasks(*input.text, mask);
  if (const auto found = static_cast<int64_t>(prepared.masked.size()); found > named) {
    return absl::InvalidArgumentError(absl::StrCat("the input has ", found, " mask tokens, but '", std::string(mask),
                                                   "' stands in it ", named,
                                                   " times: other words become the model's mask token too"));
  }
  return prepared;
}

absl::Status TextPreparer::FindMasks(const InferenceCall& call, PreparedInput* prepared) const {
  if (call.predictions == 0) return absl::OkStatus();
  const int32_t mask = *tokenizer_->mask_id();
  const std::vector<int32_t>& ids = prepared->encoding.ids;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == mask) prepared->masked.push_back(static_cast<int32_t>(i));
  }
  if (!prepared->masked.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the input has no mask token: want '", std::string(tokenizer_->TokenText(mask)), "' in the text, or the id ",
      mask, " in tokens", prepared->encoding.truncated ? " (it was truncated)" : ""));
}

absl::StatusOr<PreparedInput> TextPreparer::Blank() const {
  PreparedInput prepared;
  prepared.tokens = std::min(kBlankTokens, limit_.tokens);
  prepared.encoding.ids.resize(static_cast<size_t>(prepared.tokens));
  if (engine_->config().masked_lm) prepared.masked = {0};
  return prepared;
}

}  // namespace lion
