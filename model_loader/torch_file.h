// Reads torch.save's zip format (PyTorch 1.6 and later): which of its values are the model's tensors, and the training
// arguments beside them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model_loader/bytes.h"
#include "model_loader/model_loader.h"
#include "model_loader/tensor.h"

namespace lion {

struct TorchFile {
  std::map<std::string, TensorView> tensors;  // named as in the file
  nlohmann::json arguments;                   // the plain values of ["args"]; null without any
  std::string layout;                         // "DeiT layout", "Composer layout", "plain state_dict"
  std::string weights;                        // "model" or "ema" where the file holds both
  std::vector<std::string> warnings;
};

// Layouts: docs/mathematics.md, section 5. Views point into `bytes`. INVALID_ARGUMENT naming the entry, tensor or
// global; also for the formats of before 1.6, TorchScript, and pickled modules, saying what to do instead.
absl::StatusOr<TorchFile> ReadTorchFile(Bytes bytes, WeightChoice choice);

// Told from the first bytes: a zip archive; one of the older formats, which ReadTorchFile refuses by name.
bool IsZip(Bytes bytes);
bool IsOldTorchFile(Bytes bytes);

}  // namespace lion
