// A text or two through Tokenizer::Encode, whole and truncated.
#include <algorithm>
#include <optional>

#include "model_loader/utf8.h"
#include "server/tokenizer/tokenizer.h"
#include "tests/fuzz/check.h"
#include "tests/model_loader/test_files.h"

namespace lion {
namespace {

std::unique_ptr<Tokenizer> Load(const std::string& config) {
  const testing::TempFolder folder;
  folder.Write("vocab.txt",
               "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##a\n##b\n##ab\nab\nthe\n##e\n.\n[\n]"
               "\nmask\nnaive\nnaïve\nÉ\né\ne\n你\n好\n"
               "각\n\u1100\n##\u1161\n##\u11a8\ni\n##\u0307\nß\n##\u302e\n\u302e\n##\U0001d165\n\U0001d157\n##\u0301\n#"
               "#\u200d\n");
  folder.Write("tokenizer_config.json", config);
  auto tokenizer = Tokenizer::Load(folder.path());
  fuzz::Check(tokenizer.ok(), "the tokenizer's own files are read");
  return std::move(*tokenizer);
}

const Tokenizer& TokenizerFor(size_t index) {
  static const auto* const kTokenizers = new std::vector<std::unique_ptr<Tokenizer>>([] {
    std::vector<std::unique_ptr<Tokenizer>> tokenizers;
    for (const char* config : {"{}", R"({"do_lower_case": false})", R"({"strip_accents": false})",
                               R"({"do_lower_case": false, "strip_accents": true, "tokenize_chinese_chars": false})",
                               R"({"mask_token": {"content": "[MASK]", "lstrip": true, "rstrip": true}})"}) {
      tokenizers.push_back(Load(config));
    }
    return tokenizers;
  }());
  return *(*kTokenizers)[index % kTokenizers->size()];
}

// That token i of `encoding` stands in its own text, after the one before it.
void CheckTokens(const Encoding& encoding, const Tokenizer& tokenizer, std::string_view first,
                 std::string_view second) {
  fuzz::CheckEqual(static_cast<int64_t>(encoding.type_ids.size()), static_cast<int64_t>(encoding.ids.size()),
                   "type ids");
  fuzz::CheckEqual(static_cast<int64_t>(encoding.offsets.size()), static_cast<int64_t>(encoding.ids.size()), "offsets");
  ByteRange last;
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    fuzz::Check(!tokenizer.TokenText(encoding.ids[i]).empty(), "ids are those of the vocabulary");
    if (i > 0 && encoding.type_ids[i] != encoding.type_ids[i - 1]) last = {};
    const std::string_view text = encoding.type_ids[i] == 0 ? first : second;
    const ByteRange range = encoding.offsets[i];
    fuzz::Check(range.begin < range.end && range.end <= text.size(), "a token stands in its text");
    fuzz::Check(range.begin >= last.begin && range.end >= last.end, "offsets do not go back");
    fuzz::Check(Utf8Prefix(text.substr(range.begin, range.end - range.begin)) == range.end - range.begin,
                "offsets lie between characters");
    last = range;
  }
}

// What is left of `whole` at one of its ends is what `cut` holds, for the text of this type.
void CheckCut(const Encoding& cut, const Encoding& whole, int32_t type_id, bool at_end) {
  const auto of_text = [type_id](const Encoding& encoding) {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < encoding.ids.size(); ++i) {
      if (encoding.type_ids[i] == type_id) ids.push_back(encoding.ids[i]);
    }
    return ids;
  };
  const std::vector<int32_t> kept = of_text(cut), all = of_text(whole);
  fuzz::CheckAtMost(static_cast<int64_t>(kept.size()), static_cast<int64_t>(all.size()), "tokens after truncation");
  fuzz::Check(
      std::equal(kept.begin(), kept.end(), at_end ? all.end() - static_cast<int64_t>(kept.size()) : all.begin()),
      "truncation keeps one end");
}

// What of `text` is UTF-8, after a check that all of it would be refused if that is not all.
std::string_view Utf8Of(std::string_view text, const Tokenizer& tokenizer) {
  const size_t valid = Utf8Prefix(text);
  if (valid < text.size()) {
    const auto encoding = tokenizer.Encode(text, std::nullopt, {});
    fuzz::Check(encoding.status().code() == absl::StatusCode::kInvalidArgument, "what is no UTF-8 is refused");
  }
  return text.substr(0, valid);
}

}  // namespace
}  // namespace lion

// Which tokenizer and flags; the most tokens; then a text, or two that the byte 0x1e separates.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lion;
  if (size < 2) return 0;
  const Tokenizer& tokenizer = TokenizerFor(data[0] & 15);
  const std::string_view input = fuzz::AsText(data + 2, size - 2);
  const size_t separator = input.find('\x1e');
  const std::string_view first = Utf8Of(input.substr(0, separator), tokenizer);
  std::optional<std::string_view> second;
  if (separator != input.npos) second = Utf8Of(input.substr(separator + 1), tokenizer);

  EncodeOptions options = {.special_tokens = false, .mask_token_in_text = (data[0] & 16) != 0, .offsets = true};
  const auto whole = tokenizer.Encode(first, second, options);
  fuzz::Check(whole.ok() && !whole->truncated, "any text is encoded");
  CheckTokens(*whole, tokenizer, first, second.value_or(""));
  const auto tokens = static_cast<int64_t>(whole->ids.size());
  fuzz::CheckAtMost(tokens, static_cast<int64_t>(first.size() + second.value_or("").size()), "tokens of a text");

  if (data[1] == 0) return 0;
  options.max_tokens = data[1];
  fuzz::Check(tokenizer.Encode(first, second, options).ok() == (tokens <= data[1]), "what is too long is refused");
  for (const auto truncation : {TextTruncation::kEnd, TextTruncation::kStart}) {
    options.truncation = truncation;
    const auto cut = tokenizer.Encode(first, second, options);
    fuzz::Check(cut.ok(), "any text is truncated");
    fuzz::CheckEqual(static_cast<int64_t>(cut->ids.size()), std::min<int64_t>(tokens, data[1]), "tokens truncated");
    fuzz::Check(cut->truncated == (tokens > data[1]), "truncation is told");
    CheckTokens(*cut, tokenizer, first, second.value_or(""));
    for (const int32_t type_id : {0, 1}) CheckCut(*cut, *whole, type_id, truncation == TextTruncation::kStart);
  }
  return 0;
}
