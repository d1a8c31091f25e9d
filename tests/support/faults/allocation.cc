#include "tests/support/faults/allocation.h"

#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace lion::faults {

std::atomic<size_t> largest_bytes = kAny;
thread_local bool is_exempt = false;
std::atomic<int> refused = 0;
std::atomic<size_t> watched_bytes = kAny;
std::atomic<int> watched = 0;
thread_local int64_t fails_in = -1;

namespace {

// What none_in_server.cmake looks for in a program without symbols.
__attribute__((used)) const char kMark[] = "lion::faults";

char chosen_thread[16] = {};
std::atomic<bool> chosen = false;
std::atomic<int64_t> chosen_fails_in = 0;

bool IsOneToFail() {
  if (!chosen) return false;
  char name[16] = {};
  if (pthread_getname_np(pthread_self(), name, sizeof(name)) != 0 || std::strcmp(name, chosen_thread) != 0) {
    return false;
  }
  return chosen_fails_in-- == 0;
}

// Not inlined: gcc would see malloc meet delete.
__attribute__((noinline)) void* Allocate(size_t bytes) noexcept {
  const bool is_refused = fails_in >= 0 ? fails_in-- == 0 : (bytes > largest_bytes && !is_exempt) || IsOneToFail();
  void* memory = is_refused ? nullptr : std::malloc(bytes);
  if (memory == nullptr) ++refused;
  if (bytes == watched_bytes) ++watched;
  return memory;
}
__attribute__((noinline)) void* AllocateOrThrow(size_t bytes) {
  void* memory = Allocate(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
__attribute__((noinline)) void Free(void* memory) noexcept { std::free(memory); }

}  // namespace

void FailOneOf(const char* thread, int64_t allocations) {
  std::strncpy(chosen_thread, thread, sizeof(chosen_thread) - 1);
  chosen_fails_in = allocations;
  chosen = true;
}

bool EndFailing() {
  chosen = false;
  return chosen_fails_in < 0;
}

}  // namespace lion::faults

void* operator new(size_t bytes) { return lion::faults::AllocateOrThrow(bytes); }
void* operator new[](size_t bytes) { return lion::faults::AllocateOrThrow(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return lion::faults::Allocate(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return lion::faults::Allocate(bytes); }
void operator delete(void* memory) noexcept { lion::faults::Free(memory); }
void operator delete[](void* memory) noexcept { lion::faults::Free(memory); }
void operator delete(void* memory, size_t) noexcept { lion::faults::Free(memory); }
void operator delete[](void* memory, size_t) noexcept { lion::faults::Free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { lion::faults::Free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { lion::faults::Free(memory); }
