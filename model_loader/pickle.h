// Reads a Python pickle as inert data: a tree of plain values. Nothing is imported, called or built because a pickle
// asks for it; what would be a call is kept as the name of what would be called and its arguments.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "model_loader/bytes.h"

namespace lion {

// Immutable once its Pickle is parsed. Values may be shared and may contain themselves: never walk one without a bound
// on depth.
struct PickleValue {
  enum class Kind : uint8_t {
    kNone,
    kBool,        // integer is 0 or 1
    kInteger,     // integer
    kBigInteger,  // does not fit 64 bits: text holds its bytes, or digits
    kFloat,       // real
    kString,      // text
    kBytes,       // text
    kTuple,       // items
    kList,        // items
    kSet,         // items
    kDict,        // pairs
    kGlobal,      // module, text: an importable name, not imported
    kObject,      // items[0] called with items[1] (a tuple); state and pairs as set afterwards
    kPersistent,  // items[0]: the id of an object outside the pickle
  };

  Kind kind = Kind::kNone;
  int64_t integer = 0;
  double real = 0;
  std::string_view text;    // into the pickle's bytes
  std::string_view module;  // into the pickle's bytes
  std::vector<const PickleValue*> items;
  std::vector<std::pair<const PickleValue*, const PickleValue*>> pairs;
  const PickleValue* state = nullptr;

  bool Is(Kind wanted) const { return kind == wanted; }
  bool IsGlobal(std::string_view wanted_module, std::string_view name) const {
    return kind == Kind::kGlobal && module == wanted_module && text == name;
  }
  // The value under a string key of a dict or dict-like object; null without one. The last of several wins, as in
  // Python.
  const PickleValue* Get(std::string_view key) const;
};

// "torch._utils._rebuild_tensor_v2" for a global or what an object calls; a type's name for other values.
std::string Describe(const PickleValue& value);

// Owns the values of one pickle. Movable; pointers to values stay valid.
class Pickle {
 public:
  // `bytes` must outlive the result: strings are views into it. Protocols 0 to 5. Memory is bounded by a constant times
  // the pickle's size, and at most 4 Mi values are made. INVALID_ARGUMENT naming the position and the rule.
  static absl::StatusOr<Pickle> Parse(Bytes bytes);

  const PickleValue& root() const { return *root_; }
  int protocol() const { return protocol_; }

 private:
  friend class PickleMachine;

  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
  int protocol_ = 0;
};

}  // namespace lion
