#include "model_loader/pickle.h"

#include <string>

namespace lion {

using Kind = PickleValue::Kind;

const PickleValue* PickleValue::Get(std::string_view key) const {
  for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) {
    if (pair->first->Is(Kind::kString) && pair->first->text == key) return pair->second;
  }
  return nullptr;
}

std::string Describe(const PickleValue& value) {
  switch (value.kind) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return value.integer != 0 ? "True" : "False";
    case Kind::kInteger:
      return Concat("the integer ", value.integer);
    case Kind::kBigInteger:
      return "a large integer";
    case Kind::kFloat:
      return Concat("the number ", value.real);
    case Kind::kString:
      return Concat("the string \"", value.text.substr(0, 100), "\"");
    case Kind::kBytes:
      return "bytes";
    case Kind::kTuple:
      return Concat("a tuple of ", value.items.size());
    case Kind::kList:
      return Concat("a list of ", value.items.size());
    case Kind::kSet:
      return "a set";
    case Kind::kDict:
      return Concat("a dict of ", value.pairs.size());
    case Kind::kGlobal:
      return Concat(value.module.substr(0, 100), ".", value.text.substr(0, 100));
    case Kind::kObject:
      // What is called may itself be the result of a call; one level says enough.
      return value.items[0]->Is(Kind::kGlobal) ? Describe(*value.items[0]) : "an object that a call would make";
    case Kind::kPersistent:
      return "a persistent id";
  }
  return "?";
}

}  // namespace lion
