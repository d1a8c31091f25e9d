// Reads the golden files under tests/golden. A reader of its own, so that a fault in model_loader cannot hide itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lion::testing {

// The absolute path of a file in the source tree, for example SourcePath("tests/golden/vision/lit_s").
std::string SourcePath(const std::string& relative);

struct GoldenTensor {
  std::vector<int64_t> shape;
  std::vector<double> values;  // row-major; float32, float64, uint8 and int64 files
};

// All tensors of a safetensors file of trusted origin. Fails the process with a message that names the file when it is
// missing: goldens are copied from the design's goldens folder (tests/golden/README.md).
std::map<std::string, GoldenTensor> ReadGolden(const std::string& relative);

std::string ReadFile(const std::string& path);

}  // namespace lion::testing
