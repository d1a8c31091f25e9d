// A pickle into inert data.
#include "model_loader/pickle.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/peak_memory.h"

namespace lion {
namespace {

// Walks values, which may contain themselves, as deep and as many as the bounds allow.
class Walk {
 public:
  explicit Walk(Bytes bytes) : bytes_(bytes) {}

  void Visit(const PickleValue& value, int depth) {
    if (depth == 0 || left_ == 0) return;
    --left_;
    fuzz::Check(!Describe(value).empty(), "every value can be described");
    CheckText(value.text);
    CheckText(value.module);
    if (value.Is(PickleValue::Kind::kObject)) {
      fuzz::CheckEqual(static_cast<int64_t>(value.items.size()), 2, "an object is what is called and its arguments");
      fuzz::Check(value.items[1]->Is(PickleValue::Kind::kTuple), "arguments are a tuple");
    }
    if (value.Is(PickleValue::Kind::kPersistent)) {
      fuzz::CheckEqual(static_cast<int64_t>(value.items.size()), 1, "a persistent id is one value");
    }
    for (const PickleValue* item : value.items) Visit(*item, depth - 1);
    for (const auto& [key, item] : value.pairs) {
      Visit(*key, depth - 1);
      Visit(*item, depth - 1);
      if (key->Is(PickleValue::Kind::kString)) fuzz::Check(value.Get(key->text) != nullptr, "a key that is there");
    }
    if (value.state != nullptr) Visit(*value.state, depth - 1);
  }

 private:
  void CheckText(std::string_view text) const {
    const auto* begin = reinterpret_cast<const uint8_t*>(text.data());
    fuzz::Check(text.empty() || (begin >= bytes_.data() && begin + text.size() <= bytes_.data() + bytes_.size()),
                "text lies inside the pickle");
  }

  const Bytes bytes_;
  int left_ = 2000;
};

}  // namespace
}  // namespace lion

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lion;
  const Bytes bytes(data, size);
  fuzz::PeakMemory memory;
  const auto pickle = Pickle::Parse(bytes);
  fuzz::CheckAtMost(memory.bytes(), 512 * static_cast<int64_t>(size) + 16384, "bytes of memory to read a pickle");
  fuzz::CheckRefusal(pickle.status(), absl::StatusCode::kInvalidArgument, "reading a pickle");
  if (pickle.ok()) Walk(bytes).Visit(pickle->root(), 40);
  return 0;
}
