// Which files of a folder hold the model. Private to model_loader.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lion {

struct FoundCheckpoint {
  std::string path;                      // a file, or the index of a sharded one (NAME.index.json)
  std::vector<std::string> passed_over;  // names of other files that could have been meant
};

// The folder's checkpoint: a file of a well-known name, otherwise the only one that has the extension of weights. A
// pytorch_model.bin beside model.safetensors is the same model in the older format, and is passed over; files that only
// training needs do not count. NOT_FOUND without a candidate, INVALID_ARGUMENT naming all where several are as good.
absl::StatusOr<FoundCheckpoint> FindCheckpoint(const std::string& folder);

bool IsShardIndex(const std::string& path);

// The shards that an index names: plain file names, each with the tensors that the index places there.
struct ShardIndex {
  std::vector<std::string> files;                              // sorted, once each
  std::vector<std::pair<std::string, std::string>> placement;  // tensor, file
};
absl::StatusOr<ShardIndex> ReadShardIndex(const std::string& path);

}  // namespace lion
