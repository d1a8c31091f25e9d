#include "server/tokenizer/tokenizer.h"

#include <cstdio>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "model_loader/bytes.h"
#include "model_loader/utf8.h"
#include "server/tokenizer/token_reader.h"
#include "server/tokenizer/truncate.h"

namespace lion {
namespace {

constexpr int64_t kAnyNumber = std::numeric_limits<int64_t>::max();

absl::Status CheckText(std::string_view text) {
  if (text.size() > std::numeric_limits<uint32_t>::max()) {
    return InvalidFile("the text has ", text.size(), " bytes, at most ", std::numeric_limits<uint32_t>::max(),
                       " can be read");
  }
  const size_t valid = Utf8Prefix(text);
  if (valid == text.size()) return absl::OkStatus();
  char byte[8];
  std::snprintf(byte, sizeof(byte), "0x%02x", static_cast<uint8_t>(text[valid]));
  return InvalidFile("the text is not UTF-8: byte ", byte, " at position ", valid, " begins no character");
}

// Reads on until there are more than `room` tokens.
void ReadPast(int64_t room, TokenReader& reader) {
  while (reader.count() <= room && reader.Next()) continue;
}

// Reads as far as CutLongest needs to cut at the end as if all had been read. An odd token of the room goes to the
// longer text: then the shorter one must be read to its end to know which that is.
void ReadBeginnings(int64_t room, TokenReader& first, TokenReader& second) {
  ReadPast(room, first);
  ReadPast(room, second);
  if (room % 2 == 0 || first.count() <= room || second.count() <= room) return;
  while ((first.count() > second.count() ? second : first).Next()) continue;
}

// Appends `count` of the reader's tokens, those at its end if `at_end`.
void Append(const TokenReader& reader, int64_t count, bool at_end, int32_t type_id, Encoding& encoding) {
  const auto append = [count, at_end](const auto& from, auto& to) {
    const auto begin = at_end ? from.end() - count : from.begin();
    to.insert(to.end(), begin, begin + count);
  };
  append(reader.ids(), encoding.ids);
  encoding.type_ids.resize(encoding.ids.size(), type_id);
  if (!reader.offsets().empty()) append(reader.offsets(), encoding.offsets);
}

class BertTokenizer final : public Tokenizer {
 public:
  BertTokenizer(const TokenizerSettings& settings, const Characters& characters) : tables_(settings, characters) {}

  absl::StatusOr<Encoding> Encode(std::string_view first, std::optional<std::string_view> second,
                                  const EncodeOptions& options) const override;

  absl::StatusOr<std::string> Decode(std::span<const uint32_t> ids, bool skip_special) const override;

  std::string_view TokenText(int32_t id) const override {
    if (id < 0 || id >= vocabulary()) return {};
    return tables_.settings.pieces[static_cast<size_t>(id)];
  }
  int64_t vocabulary() const override { return static_cast<int64_t>(tables_.settings.pieces.size()); }
  std::optional<int32_t> mask_id() const override {
    if (!tables_.settings.mask) return std::nullopt;
    return tables_.settings.mask->id;
  }
  int64_t max_tokens() const override { return tables_.settings.max_tokens; }

 private:
  bool IsSpecial(int32_t id) const {
    const TokenizerSettings& settings = tables_.settings;
    return id == settings.cls_id || id == settings.sep_id || id == settings.unknown_id || mask_id() == id ||
           TokenText(id) == "[PAD]";
  }

  TokenizerTables tables_;
};

absl::StatusOr<std::string> BertTokenizer::Decode(std::span<const uint32_t> ids, bool skip_special) const {
  constexpr std::string_view kClosing = ".?!,";
  const std::string_view prefix = tables_.settings.continuing_prefix;
  std::string text;
  bool first = true;
  for (const uint32_t id : ids) {
    std::string_view piece = id < vocabulary() ? TokenText(static_cast<int32_t>(id)) : std::string_view();
    if (piece.empty()) return InvalidFile("there is no token ", id, " in a vocabulary of ", vocabulary());
    if (skip_special && IsSpecial(static_cast<int32_t>(id))) continue;
    const bool continues = piece.substr(0, prefix.size()) == prefix;
    const bool closes = piece.size() == 1 && kClosing.find(piece[0]) != std::string_view::npos;
    if (continues && !first) piece.remove_prefix(prefix.size());
    if (!continues && !closes && !first) text += ' ';
    text += piece;
    first = false;
  }
  return text;
}

absl::StatusOr<Encoding> BertTokenizer::Encode(std::string_view first, std::optional<std::string_view> second,
                                               const EncodeOptions& options) const {
  if (auto status = CheckText(first); !status.ok()) return status;
  if (second) {
    if (auto status = CheckText(*second); !status.ok()) return status;
  }
  const int64_t special = !options.special_tokens ? 0 : second ? 3 : 2;
  if (options.max_tokens < 0 || (options.max_tokens > 0 && options.max_tokens < special)) {
    return InvalidFile("at most ", options.max_tokens, " tokens: there is no room for the ", special,
                       " special tokens");
  }
  const int64_t room = options.max_tokens == 0 ? kAnyNumber : options.max_tokens - special;
  const bool at_end = options.truncation == TextTruncation::kStart;

  const auto reader = [&](std::string_view text) {
    return TokenReader(tables_, text, {room, at_end}, options.mask_token_in_text, options.offsets);
  };
  TokenReader one = reader(first), two = reader(second.value_or(std::string_view()));
  if (options.truncation == TextTruncation::kEnd) {
    ReadBeginnings(room, one, two);
  } else {
    ReadPast(kAnyNumber, one);
    ReadPast(kAnyNumber, two);
  }
  const PairLengths read = {one.count(), two.count()};
  const PairLengths kept = CutLongest(read, room);

  Encoding encoding;
  encoding.truncated = kept.first < read.first || kept.second < read.second;
  if (encoding.truncated && options.truncation == TextTruncation::kNone) {
    return InvalidFile(second ? "the texts are " : "the text is ", read.first + read.second + special,
                       " tokens long, at most ", options.max_tokens, " are allowed");
  }
  const auto add_special = [&](int32_t id, int32_t type_id) {
    if (!options.special_tokens) return;
    encoding.ids.push_back(id);
    encoding.type_ids.push_back(type_id);
    if (options.offsets) encoding.offsets.emplace_back();
  };
  add_special(tables_.settings.cls_id, 0);
  Append(one, kept.first, at_end, 0, encoding);
  add_special(tables_.settings.sep_id, 0);
  if (second) {
    Append(two, kept.second, at_end, 1, encoding);
    add_special(tables_.settings.sep_id, 1);
  }
  return encoding;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& folder) {
  const auto settings = ReadTokenizerFiles(folder);
  if (!settings.ok()) return settings.status();
  const auto characters = Characters::Create(settings->characters);
  if (!characters.ok()) return characters.status();
  return std::make_unique<BertTokenizer>(*settings, *characters);
}

}  // namespace lion
