// A function with a stack of its own, which goes on where it stopped whenever it is resumed.
#pragma once

#include <cstddef>
#include <memory>

namespace lion::cuda::emulation {

// Of one thread; destroyed wherever it stands, without unwinding: nothing on its stack may need destruction.
class Fiber {
 public:
  explicit Fiber(void (*run)());  // never returns
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void Resume();  // until it yields
  void Yield();   // by the fiber itself: until it is resumed
  // Whether it has ever written past its stack's end.
  bool overflowed() const;

 private:
  static void Entry();
  void AfterSwitchIn();

  void (*run_)();
  std::unique_ptr<std::byte[]> stack_;
  bool started_ = false;
  void* place_[5];  // in the fiber
  void* back_[5];   // in who resumed it
  // AddressSanitizer's.
  void* fake_stack_ = nullptr;
  void* fake_stack_back_ = nullptr;
  const void* stack_back_ = nullptr;
  size_t stack_back_bytes_ = 0;
};

}  // namespace lion::cuda::emulation
