#include "client/cli/sinks.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/json_lines.h"
#include "client/cli/text.h"

namespace lion {
namespace {

static_assert(std::endian::native == std::endian::little, "'<f4' is written as floats lie in memory");

constexpr size_t kNpyHeaderBytes = 128;

class ClassifyTable : public ResultSink {
 public:
  ClassifyTable(std::unique_ptr<OutputFile> output, bool raw_scores)
      : output_(std::move(output)), raw_scores_(raw_scores) {}

  absl::Status Add(const std::string& file, const ImageResult& result) override {
    if (result.status.ok()) rows_.push_back(Row(file, result));
    return rows_.size() < 64 ? absl::OkStatus() : Flush();
  }

  absl::Status Finish() override {
    const absl::Status status = Flush();
    return status.ok() ? output_->Commit() : status;
  }

 private:
  std::vector<std::string> Row(const std::string& file, const ImageResult& result) const {
    // The value of a regression head is no share of anything.
    const bool percent =
        !raw_scores_ && std::all_of(result.scores.begin(), result.scores.end(),
                                    [](const ClassScore& score) { return score.score >= 0 && score.score <= 1; });
    std::vector<std::string> row = {Printable(file)};
    for (const ClassScore& score : result.scores) {
      row.push_back(" " + Printable(score.label));  // a third space between the pairs
      row.push_back(FormatScore(score.score, percent));
    }
    return row;
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
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> widths_;
};

class JsonLines : public ResultSink {
 public:
  using Format = std::function<std::string(const std::string& file, const ImageResult& result)>;
  JsonLines(std::unique_ptr<OutputFile> output, Format format)
      : output_(std::move(output)), format_(std::move(format)) {}

  absl::Status Add(const std::string& file, const ImageResult& result) override {
    const absl::Status status = output_->Write(format_(file, result) + "\n");
    return status.ok() ? output_->Flush() : status;  // whoever reads a pipe sees each result when it comes
  }

  absl::Status Finish() override { return output_->Commit(); }

 private:
  const std::unique_ptr<OutputFile> output_;
  const Format format_;
};

class Npy : public ResultSink {
 public:
  explicit Npy(std::unique_ptr<OutputFile> output) : output_(std::move(output)) {}

  absl::Status Add(const std::string& file, const ImageResult& result) override {
    if (!result.status.ok()) return absl::OkStatus();
    if (rows_ == 0) {
      dimensions_ = result.dimensions;
      // The row count is filled in at the end; going back now shows at once whether that will be possible.
      absl::Status status = output_->Write(NpyHeader(0, dimensions_));
      if (status.ok()) status = output_->WriteAtStart(NpyHeader(0, dimensions_));
      if (!status.ok()) return status;
    }
    if (result.rows != 1 || result.dimensions != dimensions_) {
      return absl::InternalError(absl::StrCat(file, ": an embedding of ", result.rows, " x ", result.dimensions,
                                              " values; expected 1 x ", dimensions_, " as before"));
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

std::unique_ptr<ResultSink> MakeClassifyTable(std::unique_ptr<OutputFile> output, bool raw_scores) {
  return std::make_unique<ClassifyTable>(std::move(output), raw_scores);
}

std::unique_ptr<ResultSink> MakeClassifyJsonLines(std::unique_ptr<OutputFile> output) {
  return std::make_unique<JsonLines>(std::move(output), ClassifyJson);
}

std::unique_ptr<ResultSink> MakeEmbedJsonLines(std::unique_ptr<OutputFile> output, bool per_token) {
  return std::make_unique<JsonLines>(
      std::move(output),
      [per_token](const std::string& file, const ImageResult& result) { return EmbedJson(file, result, per_token); });
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
