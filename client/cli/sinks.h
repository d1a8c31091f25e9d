// What becomes of the results of many inputs: the outputs of `lion classify` and `lion embed`; the base of all others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/inputs.h"
#include "client/cli/output_file.h"
#include "client/cli/transport.h"

namespace lion {

class ResultSink {
 public:
  virtual ~ResultSink() = default;
  // Results in the order of the output. An error means that nothing more can be written.
  virtual absl::Status Add(const BulkInput& input, const InputResult& result) = 0;
  virtual absl::Status Finish() = 0;
};

// `format`: a result as a JSON object, without a line end.
using JsonFormat = std::function<std::string(const BulkInput& input, const InputResult& result)>;
std::unique_ptr<ResultSink> MakeJsonLines(std::unique_ptr<OutputFile> output, JsonFormat format);

// "digits/7.png   7  99.8 %   1   0.1 %": inputs that failed are left out. Lines are aligned in blocks of up to 64, so
// that the first ones need not wait for the last. `is_regression` is asked at most once, at the first lone score: is it
// a value, and no share of anything? With `raw_scores` none is.
std::unique_ptr<ResultSink> MakeClassifyTable(std::unique_ptr<OutputFile> output, bool raw_scores,
                                              std::function<bool()> is_regression);

// NumPy's format 1.0: float32 [N, dimensions], one row per input that did not fail. Without any there is no file.
std::unique_ptr<ResultSink> MakeNpy(std::unique_ptr<OutputFile> output);

// The 128 bytes before the data.
std::string NpyHeader(size_t rows, int64_t dimensions);

}  // namespace lion
