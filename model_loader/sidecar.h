// The files beside a checkpoint: config.json, labels.txt, vocab.txt, tokenizer.json. Private to model_loader.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "model_loader/checkpoint.h"

namespace lion {

// Fills config, labels and vocabulary from the files that `folder` holds ("" is the working directory). None is needed;
// one that is there must be readable.
absl::Status ReadSidecars(const std::string& folder, Checkpoint& checkpoint);

}  // namespace lion
