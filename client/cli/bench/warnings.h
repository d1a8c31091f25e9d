// Why the figures of a run may not mean what they seem to. Pure.
#pragma once

#include <string>
#include <vector>

#include "client/cli/bench/summary.h"

namespace lion::bench {

// The share of the calls due that must be answered for a rate to count as kept.
inline constexpr double kKeptShare = 0.95;

// One sentence each, in the order of their weight. Looks at all of `summary` but its warnings.
std::vector<std::string> Warnings(const BenchFlags& flags, const Summary& summary);

}  // namespace lion::bench
