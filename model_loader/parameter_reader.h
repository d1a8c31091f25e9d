// Takes the tensors of an architecture by name and shape, and lists everything that does not fit. Private to
// model_loader.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model_loader/weights.h"

namespace lion {

// "[48, 3, 8, 8]".
std::string ShapeText(const std::vector<int64_t>& shape);

// A missing or misshapen tensor is noted and given as a view without data. Keeps a reference to the map.
class ParameterReader {
 public:
  explicit ParameterReader(const std::map<std::string, TensorView>& tensors) : tensors_(tensors) {}

  TensorView Take(const std::string& name, const std::vector<int64_t>& shape);
  LinearWeights TakeLinear(const std::string& name, int64_t out, int64_t in);  // name + ".weight", ".bias"
  NormWeights TakeNorm(const std::string& name, int64_t width);

  // A second name that checkpoints have for the tensor `original`: where both are there, their values must be the same.
  void TakeDuplicate(const std::string& name, const std::string& original);

  // A tensor that checkpoints hold and nothing uses: not an error where it is there.
  void Ignore(const std::string& name);

  // OK, or one INVALID_ARGUMENT that lists all missing, unexpected, misshapen and contradictory tensors. Unexpected
  // ones for which `may_drop` holds are only noted in `dropped`.
  absl::Status Finish(const std::function<bool(const std::string&)>& may_drop, std::vector<std::string>* dropped) const;

  int64_t parameters() const { return parameters_; }  // elements of all tensors taken

 private:
  const std::map<std::string, TensorView>& tensors_;
  std::set<std::string> seen_;
  std::vector<std::string> missing_, misshapen_, contradictory_;
  int64_t parameters_ = 0;
};

}  // namespace lion
