// Allocations that fail at a chosen point. A program that links lion_test_faults has an operator new of its own, which
// does as it is told here. Nothing but tests may link it: the test faults.lion_server_has_none looks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace lion::faults {

inline constexpr size_t kAny = std::numeric_limits<size_t>::max();

// Larger blocks are refused, but not to threads that are exempt.
extern std::atomic<size_t> largest_bytes;
extern thread_local bool is_exempt;
// Of what was refused, the number; the same of blocks of the size `watched_bytes` that were asked for.
extern std::atomic<int> refused;
extern std::atomic<size_t> watched_bytes;
extern std::atomic<int> watched;
// The next but so many is refused to this thread; negative: none is.
extern thread_local int64_t fails_in;

// The next but `allocations` that threads of this name, of at most 15 characters, ask for is refused to them: one.
void FailOneOf(const char* thread, int64_t allocations);
// No more, if it has not been yet. Whether it was.
bool EndFailing();

}  // namespace lion::faults
