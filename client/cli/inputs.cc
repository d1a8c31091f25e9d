#include "client/cli/inputs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/utf8.h"

namespace lion {
namespace {

constexpr char kTextFlag[] = "--text";
constexpr size_t kMaxLineBytes = size_t{64} << 20;

std::string SourceName(const std::string& path) { return path == "-" ? "stdin" : path; }

absl::Status CheckUtf8(const std::string& text) {
  const std::optional<size_t> at = FindInvalidUtf8(text);
  if (!at.has_value()) return absl::OkStatus();
  const auto byte = static_cast<uint8_t>(text[*at]);
  return absl::InvalidArgumentError(absl::StrCat("the text is not UTF-8: byte ", *at, " is 0x",
                                                 absl::Hex(byte, absl::kZeroPad2), ", which begins no character"));
}

}  // namespace

bool BulkInput::from_file() const { return is_text() && source != kTextFlag; }

std::string NameOf(const BulkInput& input) {
  if (!input.is_text()) return input.source;
  return absl::StrCat(input.source, input.from_file() ? ":" : " ", input.number);
}

std::string TextOf(const BulkInput& input) {
  if (!input.value.has_text_pair()) return input.value.text();
  return absl::StrCat(input.value.text_pair().first(), " / ", input.value.text_pair().second());
}

InputSource::InputSource(InputLists lists) : lists_(std::move(lists)) {}

std::optional<size_t> InputSource::total() const {
  if (!lists_.text_files.empty()) return std::nullopt;
  return lists_.images.size() + lists_.texts.size();
}

std::optional<BulkInput> InputSource::Next() {
  std::optional<BulkInput> input;
  if (next_image_ < lists_.images.size()) {
    const InputFile& file = lists_.images[next_image_++];
    input.emplace();
    input->source = file.path;
    input->status = file.status;
  } else if (next_text_ < lists_.texts.size()) {
    const std::string& text = lists_.texts[next_text_++];
    input = TextInput(kTextFlag, static_cast<int64_t>(next_text_), text);
  } else {
    input = NextLine();
  }
  if (input.has_value()) input->index = given_++;
  return input;
}

bool InputSource::StopReading() {
  const bool unread = reader_ != nullptr || next_file_ < lists_.text_files.size();
  reader_.reset();
  next_file_ = lists_.text_files.size();
  return unread;
}

BulkInput InputSource::TextInput(const std::string& source, int64_t number, std::string text) const {
  BulkInput input;
  input.source = source;
  input.number = number;
  input.status = CheckUtf8(text);
  if (!input.status.ok()) return input;
  if (!lists_.pairs) {
    input.value.set_text(std::move(text));
    return input;
  }
  const size_t tab = text.find('\t');
  if (tab == std::string::npos || text.find('\t', tab + 1) != std::string::npos) {
    const auto tabs = std::count(text.begin(), text.end(), '\t');
    input.status =
        absl::InvalidArgumentError(absl::StrCat("there are ", tabs, " tabs; expected one, between two texts"));
    return input;
  }
  input.value.mutable_text_pair()->set_first(text.substr(0, tab));
  input.value.mutable_text_pair()->set_second(text.substr(tab + 1));
  return input;
}

std::optional<BulkInput> InputSource::NextLine() {
  while (reader_ != nullptr || next_file_ < lists_.text_files.size()) {
    BulkInput failed;
    if (reader_ == nullptr) {
      const std::string& path = lists_.text_files[next_file_++];
      line_ = inputs_of_file_ = 0;
      absl::StatusOr<std::unique_ptr<LineReader>> reader = LineReader::Open(path, kMaxLineBytes);
      if (reader.ok()) {
        reader_ = *std::move(reader);
        continue;
      }
      failed.source = SourceName(path);
      failed.status = reader.status();
      return failed;
    }
    const std::string source = SourceName(lists_.text_files[next_file_ - 1]);
    std::optional<absl::StatusOr<std::string>> line = reader_->Next();
    if (!line.has_value()) {
      reader_.reset();
      if (inputs_of_file_ > 0) continue;
      failed.source = source;
      failed.status = absl::NotFoundError("there is no text in this file");
      return failed;
    }
    ++line_;
    if (line->ok() && lists_.skip_empty && absl::StripAsciiWhitespace(**line).empty()) {
      ++skipped_;
      continue;
    }
    ++inputs_of_file_;
    if (line->ok()) return TextInput(source, line_, **std::move(line));
    failed.source = source;
    failed.status = line->status();
    failed.number = absl::IsInvalidArgument(failed.status) ? line_ : 0;  // else the file as a whole
    return failed;
  }
  return std::nullopt;
}

}  // namespace lion
