// From the inert data of a torch.save pickle to views of its tensors. Private to model_loader.
#pragma once

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "model_loader/pickle.h"
#include "model_loader/tensor.h"
#include "model_loader/zip_reader.h"

namespace lion {

// What a torch.save pickle's persistent ids refer to: the zip's entries named `root` + "data/" + key.
struct TorchStorages {
  const ZipReader* zip;
  std::string root;               // "archive/", or empty
  std::set<std::string> checked;  // entries whose CRC-32 has been found right: tensors may share a storage
};

// True where `value` calls one of torch's functions that rebuild a tensor or parameter, or any function named like one.
bool LooksLikeTensor(const PickleValue& value);

// The tensor that `value` describes, validated: its storage exists, has the very size it claims and the CRC-32 that the
// archive gives, and every element lies inside it; a view with more elements than its storage (an expanded one) is
// refused, so that no size is believed that the file does not back. INVALID_ARGUMENT with the rule, or with the name of
// the unknown global that would make it.
absl::StatusOr<TensorView> ReadTorchTensor(const PickleValue& value, TorchStorages& storages);

}  // namespace lion
