// A fortified longjmp takes a switch of stacks for an attack.
#undef _FORTIFY_SOURCE
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

// setjmp and longjmp save no signal mask: swapcontext would cost two system calls a switch.
void Fiber::Resume() {
  if (_setjmp(back_) == 0) {
    __sanitizer_start_switch_fiber(&fake_stack_back_, stack_.get(), kStackBytes);
    if (started_) _longjmp(place_, 1);
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

void Fiber::Yield() {
  if (_setjmp(place_) == 0) {
    __sanitizer_start_switch_fiber(&fake_stack_, stack_back_, stack_back_bytes_);
    _longjmp(back_, 1);
  }
  AfterSwitchIn();
}

}  // namespace lion::cuda::emulation
