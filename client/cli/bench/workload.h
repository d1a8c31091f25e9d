// The requests of a run, all made before it starts.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/bench/bench.h"
#include "client/cli/bench/size_mix.h"
#include "lion/client.h"

namespace lion::bench {

using PreparedRequest = std::variant<Prepared<v1::EmbedRequest>, Prepared<v1::ClassifyRequest>>;

// [sizes of the mix][variants]: each variant has pictures of its own. Eight variants of each size, fewer where their
// pixels would exceed 32 MiB, at least one. A function of the flags and the mix. INVALID_ARGUMENT: a message cannot
// hold that many pixels.
absl::StatusOr<std::vector<std::vector<PreparedRequest>>> BuildRequests(const BenchFlags& flags,
                                                                        const std::vector<SizeShare>& mix);

}  // namespace lion::bench
