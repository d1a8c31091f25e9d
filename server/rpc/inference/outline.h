// What a ModelInfer request takes in memory, before it is parsed.
#pragma once

#include "absl/status/statusor.h"
#include "server/rpc/messages.h"

namespace lion {

// `inputs`: elements of BYTES that are contents, or 1; what does not parse ends the count. `bytes`: an upper bound, in
// which contents that are small on the wire count as they are in memory. INVALID_ARGUMENT: names, shapes and parameters
// are more than any request needs; they take many times their length.
absl::StatusOr<Outline> OutlineOfInfer(const grpc::ByteBuffer* message);

}  // namespace lion
