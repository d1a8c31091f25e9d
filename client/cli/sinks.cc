#include "client/cli/sinks.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/text.h"

namespace lion {
namespace {

static_assert(std::endian::native == std::endian::little, "'<f4' is written as floats lie in memory");

constexpr size_t kNpyHeaderBytes = 128;
constexpr size_t kTitleColumns = 60;

// An image's path, the text of the command line, or the file and line of another.
std::string TitleOf(const BulkInput& input) {
  return input.is_text() && !input.from_file() ? Shorten(TextOf(input), kTitleColumns) : NameOf(input);
}

class ClassifyTable : public ResultSink {
 public:
  ClassifyTable(std::unique_ptr<OutputFile> output, bool raw_scores, std::function<bool()> is_regression)
      : output_(std::move(output)), raw_scores_(raw_scores), is_regression_(std::move(is_regression)) {}

  absl::Status Add(const BulkInput& input, const InputResult& result) override {
    if (result.status.ok()) rows_.push_back(Row(input, result));
    return rows_.size() < 64 ? absl::OkStatus() : Flush();
  }

  absl::Status Finish() override {
    const absl::Status status = Flush();
    return status.ok() ? output_->Commit() : status;
  }

 private:
  std::vector<std::string> Row(const BulkInput& input, const InputResult& result) {
    const bool percent = AreShares(result.scores);
    std::vector<std::string> row = {Printable(TitleOf(input))};
    for (const ClassScore& score : result.scores) {
      row.push_back(" " + Printable(score.label));  // a third space between the pairs
      row.push_back(FormatScore(score.score, percent));
    }
    return row;
  }

  bool AreShares(const std::vector<ClassScore>& scores) {
    if (raw_scores_) return false;
    if (scores.size() == 1 && !regression_.has_value()) regression_ = is_regression_();
    return !regression_.value_or(false) && std::all_of(scores.begin(), scores.end(), [](const ClassScore& score) {
      return score.score >= 0 && score.score <= 1;
    });
  }

  absl::Status Flush() {
    size_t columns = 1;
    for (const auto& row : rows_) columns = std::max(columns, row.size());
    std::string alignment = "l";
    while (alignment.size() < columns) alignment += "lr";
    const std::string text = FormatTable(rows_, alignment, widths_);
    rows_.clear();
    const absl::Status status = output_->Write(text);
    return status.ok() ? output_->Flush() : status;
  }

  const std::unique_ptr<OutputFile> output_;
  const bool raw_scores_;
  const std::function<bool()> is_regression_;
  std::optional<bool> regression_;  // its answer
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> widths_;
};

class JsonLines : public ResultSink {
 public:
  JsonLines(std::unique_ptr<OutputFile> output, JsonFormat format)
      : output_(std::move(output)), format_(std::move(format)) {}

  absl::Status Add(const BulkInput& input, const InputResult& result) override {
    const absl::Status status = output_->Write(format_(input, result) + "\n");
    return status.ok() ? output_->Flush() : status;  // whoever reads a pipe sees each result when it comes
  }

  absl::Status Finish() override { return output_->Commit(); }

 private:
  const std::unique_ptr<OutputFile> output_;
  const JsonFormat format_;
};

class Npy : public ResultSink {
 public:
  explicit Npy(std::unique_ptr<OutputFile> output) : output_(std::move(output)) {}

  absl::Status Add(const BulkInput& input, const InputResult& result) override {
    if (!result.status.ok()) return absl::OkStatus();
    if (rows_ == 0) {
      dimensions_ = result.dimensions;
      // The row count is filled in at the end; going back now shows at once whether that will be possible.
      absl::Status status = output_->Write(NpyHeader(0, dimensions_));
      if (status.ok()) status = output_->WriteAtStart(NpyHeader(0, dimensions_));
      if (!status.ok()) return status;
    }
    if (result.rows != 1 || result.dimensions != dimensions_) {
      return absl::InternalError(absl::StrCat(NameOf(input), ": an embedding of ", result.rows, " x ",
                                              result.dimensions, " values; expected 1 x ", dimensions_, " as before"));
    }
    ++rows_;
    const char* const bytes = reinterpret_cast<const char*>(result.embedding.data());
    return output_->Write(std::string(bytes, result.embedding.size() * sizeof(float)));
  }

  absl::Status Finish() override {
    if (rows_ == 0) return absl::OkStatus();
    const absl::Status status = output_->WriteAtStart(NpyHeader(rows_, dimensions_));
    return status.ok() ? output_->Commit() : status;
  }

 private:
  const std::unique_ptr<OutputFile> output_;
  size_t rows_ = 0;
  int64_t dimensions_ = 0;
};

}  // namespace

std::unique_ptr<ResultSink> MakeJsonLines(std::unique_ptr<OutputFile> output, JsonFormat format) {
  return std::make_unique<JsonLines>(std::move(output), std::move(format));
}

std::unique_ptr<ResultSink> MakeClassifyTable(std::unique_ptr<OutputFile> output, bool raw_scores,
                                              std::function<bool()> is_regression) {
  return std::make_unique<ClassifyTable>(std::move(output), raw_scores, std::move(is_regression));
}

std::unique_ptr<ResultSink> MakeNpy(std::unique_ptr<OutputFile> output) {
  return std::make_unique<Npy>(std::move(output));
}

std::string NpyHeader(size_t rows, int64_t dimensions) {
  std::string header("\x93NUMPY\x01\x00", 8);
  const size_t dictionary_bytes = kNpyHeaderBytes - header.size() - 2;
  header += static_cast<char>(dictionary_bytes & 0xFF);
  header += static_cast<char>(dictionary_bytes >> 8);
  absl::StrAppend(&header, "{'descr': '<f4', 'fortran_order': False, 'shape': (", rows, ", ", dimensions, "), }");
  header.resize(kNpyHeaderBytes - 1, ' ');
  return header + '\n';
}

}  // namespace lion
