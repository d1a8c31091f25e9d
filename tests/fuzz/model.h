// What is done with tensors and settings once a checkpoint's files are read: the architecture, and all weights by name.
#pragma once

#include <map>
#include <string>

#include "model_loader/checkpoint.h"
#include "model_loader/model_loader.h"
#include "model_loader/tensor.h"

namespace lion::fuzz {

// Every element of every tensor can be read, and there are no more of them than `file_bytes` can hold.
void ReadAllElements(const std::map<std::string, TensorView>& tensors, int64_t file_bytes);

// Reads the architecture. Checks that a refusal is INVALID_ARGUMENT, and that a model that is accepted can be served:
// its sizes are positive and fit each other, its weights have them, its labels can stand in a reply.
void ReadModel(const Checkpoint& checkpoint, const LoadOptions& options);

}  // namespace lion::fuzz
