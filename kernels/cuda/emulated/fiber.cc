#include "kernels/cuda/emulated/fiber.h"

#include <ucontext.h>

#include <algorithm>

#if defined(__SANITIZE_ADDRESS__)
#define LION_ASAN_FIBERS
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LION_ASAN_FIBERS
#endif
#endif
#ifdef LION_ASAN_FIBERS
#include <sanitizer/common_interface_defs.h>
#else
// As there, without effect.
static void __sanitizer_start_switch_fiber(void**, const void*, size_t) {}    // NOLINT(bugprone-reserved-identifier)
static void __sanitizer_finish_switch_fiber(void*, const void**, size_t*) {}  // NOLINT(bugprone-reserved-identifier)
#endif

namespace lion::cuda::emulation {
namespace {

constexpr size_t kStackBytes = size_t{256} << 10;
constexpr size_t kCanaryBytes = 256;
constexpr std::byte kCanary{0xC5};

thread_local Fiber* starting = nullptr;

// Not in the function that has a setjmp of its own.
[[noreturn]] __attribute__((noinline, no_sanitize("address"))) void Jump(void** place) { __builtin_longjmp(place, 1); }

}  // namespace

Fiber::Fiber(void (*run)()) : run_(run), stack_(new std::byte[kStackBytes]) {
  std::fill_n(stack_.get(), kCanaryBytes, kCanary);
}

bool Fiber::overflowed() const {
  return !std::all_of(stack_.get(), stack_.get() + kCanaryBytes, [](std::byte b) { return b == kCanary; });
}

void Fiber::AfterSwitchIn() { __sanitizer_finish_switch_fiber(fake_stack_, &stack_back_, &stack_back_bytes_); }

void Fiber::Entry() {
  Fiber& self = *starting;
  self.AfterSwitchIn();
  self.run_();
}

// The compiler's own setjmp and longjmp: swapcontext makes two system calls a switch; the C library's longjmp takes a
// switch of stacks for an attack where it is fortified, and AddressSanitizer makes a system call of it, too.
__attribute__((no_sanitize("address"))) void Fiber::Resume() {
  if (__builtin_setjmp(back_) == 0) {
    __sanitizer_start_switch_fiber(&fake_stack_back_, stack_.get(), kStackBytes);
    if (started_) Jump(place_);
    started_ = true;
    starting = this;
    ucontext_t start;
    getcontext(&start);
    start.uc_stack = {stack_.get(), 0, kStackBytes};
    start.uc_link = nullptr;
    makecontext(&start, &Fiber::Entry, 0);
    setcontext(&start);
  }
  __sanitizer_finish_switch_fiber(fake_stack_back_, nullptr, nullptr);
}

__attribute__((no_sanitize("address"))) void Fiber::Yield() {
  if (__builtin_setjmp(place_) == 0) {
    __sanitizer_start_switch_fiber(&fake_stack_, stack_back_, stack_back_bytes_);
    Jump(back_);
  }
  AfterSwitchIn();
}

}  // namespace lion::cuda::emulation
