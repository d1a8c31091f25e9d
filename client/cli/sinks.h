// What becomes of the results of many files: the outputs of `lion classify` and `lion embed`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/output_file.h"
#include "client/cli/transport.h"

namespace lion {

class ResultSink {
 public:
  virtual ~ResultSink() = default;
  // Results in the order of the output. An error means that nothing more can be written.
  virtual absl::Status Add(const std::string& file, const ImageResult& result) = 0;
  virtual absl::Status Finish() = 0;
};

// "digits/7.png   7  99.8 %   1   0.1 %": files that failed are left out. Lines are aligned in blocks of up to 64, so
// that the first ones need not wait for the last.
std::unique_ptr<ResultSink> MakeClassifyTable(std::unique_ptr<OutputFile> output, bool raw_scores);

std::unique_ptr<ResultSink> MakeClassifyJsonLines(std::unique_ptr<OutputFile> output);
std::unique_ptr<ResultSink> MakeEmbedJsonLines(std::unique_ptr<OutputFile> output, bool per_token);

// NumPy's format 1.0: float32 [N, dimensions], one row per file that did not fail. Without any there is no file.
std::unique_ptr<ResultSink> MakeNpy(std::unique_ptr<OutputFile> output);

// The 128 bytes before the data.
std::string NpyHeader(size_t rows, int64_t dimensions);

}  // namespace lion
