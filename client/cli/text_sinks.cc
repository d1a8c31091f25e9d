#include "client/cli/text_sinks.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/text.h"
#include "client/cli/utf8.h"

namespace lion {
namespace {

constexpr char kMask[] = "[MASK]";
constexpr size_t kHeadingColumns = 100;
constexpr size_t kContextColumns = 30;

using Rows = std::vector<std::vector<std::string>>;

// The text that a pair has its mask in, or else the first.
const std::string& TextWithMask(const v1::Input& input) {
  if (!input.has_text_pair()) return input.text();
  const v1::TextPair& pair = input.text_pair();
  return absl::StrContains(pair.first(), kMask) ? pair.first() : pair.second();
}

std::string LastColumns(const std::string& text, size_t columns) {
  size_t left = 0;
  for (size_t at = 0; at < text.size(); at = NextCodePoint(text, at)) ++left;
  if (left <= columns) return text;
  size_t at = 0;
  for (; left > columns - 1; --left) at = NextCodePoint(text, at);
  return absl::StrCat("…", text.substr(at));
}

class BlockSink : public ResultSink {
 public:
  using MakeRows = Rows (*)(const BulkInput& input, const InputResult& result);
  // `alignment`: as FormatTable takes it.
  BlockSink(std::unique_ptr<OutputFile> output, std::string alignment, MakeRows make_rows)
      : output_(std::move(output)), alignment_(std::move(alignment)), make_rows_(make_rows) {}

  absl::Status Add(const BulkInput& input, const InputResult& result) override {
    if (!result.status.ok()) return absl::OkStatus();
    Rows rows = make_rows_(input, result);
    for (std::vector<std::string>& row : rows) {
      for (std::string& cell : row) cell = Printable(cell);
      row[0].insert(0, "  ");
    }
    std::string heading = Printable(Shorten(TextOf(input), kHeadingColumns));
    if (input.from_file()) heading = absl::StrCat(Printable(NameOf(input)), ": ", heading);
    std::vector<size_t> widths;
    const absl::Status status = output_->Write(absl::StrCat(std::exchange(first_, false) ? "" : "\n", heading,
                                                            result.truncated ? " (truncated)" : "", "\n",
                                                            FormatTable(rows, alignment_, widths)));
    return status.ok() ? output_->Flush() : status;
  }

  absl::Status Finish() override { return output_->Commit(); }

 private:
  const std::unique_ptr<OutputFile> output_;
  const std::string alignment_;
  const MakeRows make_rows_;
  bool first_ = true;
};

Rows FillMaskRows(const BulkInput& input, const InputResult& result) {
  Rows rows;
  const bool single = result.filled.masks_size() == 1;
  for (const v1::MaskPrediction& mask : result.filled.masks()) {
    for (const v1::TokenPrediction& token : mask.predictions()) {
      rows.push_back({absl::StrCat(mask.position()), token.token(), FormatScore(token.probability(), true)});
      if (single) rows.back().push_back(FillSentence(TextWithMask(input.value), token.token(), kContextColumns));
    }
  }
  return rows;
}

Rows TokenRows(const BulkInput& input, const InputResult& result) {
  Rows rows;
  for (const v1::TokenizedInput::Token& token : result.tokenized.tokens()) {
    const bool has_bytes = token.end_byte() > token.start_byte();
    rows.push_back({absl::StrCat(token.id()),
                    has_bytes ? absl::StrCat(token.start_byte(), "-", token.end_byte()) : std::string("-")});
    if (input.value.has_text_pair()) rows.back().push_back(token.type_id() == 0 ? "first" : "second");
    rows.back().push_back(token.text());
  }
  return rows;
}

}  // namespace

std::unique_ptr<ResultSink> MakeFillMaskTable(std::unique_ptr<OutputFile> output) {
  return std::make_unique<BlockSink>(std::move(output), "rlrl", FillMaskRows);
}

std::unique_ptr<ResultSink> MakeTokenTable(std::unique_ptr<OutputFile> output) {
  return std::make_unique<BlockSink>(std::move(output), "rrl", TokenRows);
}

std::string FillSentence(const std::string& text, const std::string& token, size_t columns) {
  const size_t mask = text.find(kMask);
  if (mask == std::string::npos) return "";
  const size_t after = mask + sizeof(kMask) - 1;
  if (text.find(kMask, after) != std::string::npos) return "";
  std::string before = text.substr(0, mask);
  const bool glued = absl::StartsWith(token, "##");
  if (glued) before.erase(before.find_last_not_of(' ') + 1);
  return absl::StrCat(LastColumns(before, columns), glued ? token.substr(2) : token,
                      Shorten(text.substr(after), columns));
}

}  // namespace lion
