// The files of a tokenizer.
#include "model_loader/json.h"
#include "server/tokenizer/tokenizer_files.h"
#include "server/tokenizer/word_piece.h"
#include "tests/fuzz/check.h"

namespace lion {
namespace {

// The part up to the next separator, which is then gone.
std::string_view NextPart(std::string_view& text) {
  const size_t end = std::min(text.find('\x1e'), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

// An object; null without one.
nlohmann::json Parse(std::string_view text) {
  const auto json = ParseJson(text);
  return json.ok() && json->is_object() ? *json : nullptr;
}

// What the readers promise of settings that they accept.
void CheckSettings(const absl::StatusOr<TokenizerSettings>& settings) {
  fuzz::CheckRefusal(settings.status(), absl::StatusCode::kInvalidArgument, "reading a tokenizer's file");
  if (!settings.ok()) return;
  const auto check = [&settings](int32_t id) {
    fuzz::Check(id >= 0 && static_cast<size_t>(id) < settings->pieces.size(), "special tokens have ids");
    fuzz::Check(!settings->pieces[static_cast<size_t>(id)].empty(), "special tokens have names");
  };
  check(settings->unknown_id);
  check(settings->cls_id);
  check(settings->sep_id);
  if (settings->mask) check(settings->mask->id);
  fuzz::Check(settings->max_tokens >= 0, "no limit below zero");
  fuzz::CheckAtMost(static_cast<int64_t>(settings->pieces.size()), kMaxVocabulary, "ids");

  const WordPiece word_piece(settings->pieces, settings->continuing_prefix, settings->unknown_id);
  Word word;
  word.bytes = "ab[MASK]\xc3\xa9";
  std::vector<int32_t> ids;
  word_piece.Split(word, ids, nullptr);
  fuzz::Check(!ids.empty() && ids.size() <= word.bytes.size(), "a word is one token or more");
  for (const int32_t id : ids) check(id);
}

}  // namespace
}  // namespace lion

// Parts that the byte 0x1e separates: tokenizer_config.json, tokenizer.json, vocab.txt.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lion;
  std::string_view rest = fuzz::AsText(data, size);
  const auto config = ReadTokenizerConfig("tokenizer_config.json", Parse(NextPart(rest)));
  fuzz::CheckRefusal(config.status(), absl::StatusCode::kInvalidArgument, "reading tokenizer_config.json");
  if (!config.ok()) return 0;
  if (const nlohmann::json json = Parse(NextPart(rest)); !json.is_null()) {
    CheckSettings(ReadTokenizerJson("tokenizer.json", json, *config));
  }
  CheckSettings(ReadVocabulary("vocab.txt", NextPart(rest), *config));
  return 0;
}
