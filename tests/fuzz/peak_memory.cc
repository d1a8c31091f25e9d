#include "tests/fuzz/peak_memory.h"

#include <sanitizer/allocator_interface.h>

#include <algorithm>
#include <cstdlib>

namespace lion::fuzz {
namespace {

thread_local bool counting = false;
thread_local int64_t held_bytes = 0;
thread_local int64_t peak_bytes = 0;

void OnAllocate(const volatile void*, size_t size) {
  if (!counting) return;
  held_bytes += static_cast<int64_t>(size);
  peak_bytes = std::max(peak_bytes, held_bytes);
}

void OnFree(const volatile void* memory) {
  if (!counting || memory == nullptr) return;
  held_bytes -= static_cast<int64_t>(__sanitizer_get_allocated_size(const_cast<const void*>(memory)));
}

}  // namespace

PeakMemory::PeakMemory() {
  static const int kInstalled = __sanitizer_install_malloc_and_free_hooks(OnAllocate, OnFree);
  if (kInstalled == 0) std::abort();
  held_bytes = peak_bytes = 0;
  counting = true;
}

PeakMemory::~PeakMemory() { counting = false; }

int64_t PeakMemory::bytes() const { return peak_bytes; }

}  // namespace lion::fuzz
