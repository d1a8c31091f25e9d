#include <bit>
#include <charconv>
#include <string>
#include <unordered_map>

#include "model_loader/pickle.h"
#include "model_loader/pickle_opcodes.h"

namespace lion {
namespace {

// A value takes about 120 bytes, an opcode may be one byte: this bounds what a hostile pickle costs.
constexpr size_t kMaxValues = size_t{4} << 20;

using Kind = PickleValue::Kind;
using Op = PickleOpcode;

}  // namespace

// The stack machine. Open containers stay mutable until their Pickle is handed out. No step recurses, so nesting of any
// depth costs heap in proportion to the pickle and no stack.
class PickleMachine {
 public:
  explicit PickleMachine(Bytes bytes) : all_(bytes), rest_(bytes) {}

  absl::StatusOr<Pickle> Run() {
    while (ok_ && !stopped_) {
      at_ = all_.size() - rest_.size();
      if (rest_.empty()) {
        Fail("it ends without a STOP opcode");
        break;
      }
      const uint8_t opcode = rest_[0];
      rest_.remove_prefix(1);
      Step(static_cast<Op>(opcode));
    }
    if (!ok_) return InvalidFile("pickle: at byte ", at_, ": ", error_);
    return std::move(pickle_);
  }

 private:
  void Step(Op op);

  void Fail(const std::string& why) {
    if (ok_) error_ = why;
    ok_ = false;
  }

  // --- Input. After a failure these return zeros and empty views.
  Bytes Take(uint64_t size) {
    if (size > rest_.size()) {
      Fail(Concat("an argument of ", size, " bytes reaches past the end"));
      return {};
    }
    const Bytes taken = rest_.first(size);
    rest_.remove_prefix(size);
    return taken;
  }
  template <typename T>
  T Number() {
    const Bytes bytes = Take(sizeof(T));
    return bytes.empty() ? T{} : ReadLittleEndian<T>(bytes.data());
  }
  std::string_view Line() {
    const std::string_view text = AsText(rest_);
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      Fail("a text argument has no end of line");
      return {};
    }
    rest_.remove_prefix(end + 1);
    return text.substr(0, end);
  }
  template <typename T>
  T LineNumber(std::string_view line) {
    if (!line.empty() && line.back() == 'L') line.remove_suffix(1);
    T value{};
    const auto result = std::from_chars(line.data(), line.data() + line.size(), value);
    if (result.ec != std::errc() || result.ptr != line.data() + line.size()) {
      Fail(Concat("\"", line.substr(0, 40), "\" is no number that fits"));
    }
    return value;
  }

  // --- Values and the stack. A mark is a null pointer.
  PickleValue* Make(Kind kind) {
    if (pickle_.values_.size() >= kMaxValues) Fail(Concat("it makes more than ", kMaxValues, " values"));
    // A failed run still gets a value to write to, so that callers need no checks.
    if (!ok_) return &scratch_;
    PickleValue* value = &pickle_.values_.emplace_back();
    value->kind = kind;
    return value;
  }
  PickleValue* Push(Kind kind) {
    PickleValue* value = Make(kind);
    stack_.push_back(value);
    return value;
  }
  PickleValue* Top() {
    if (!stack_.empty() && stack_.back() != nullptr) return stack_.back();
    Fail("it needs a value where the stack has none");
    return &scratch_;
  }
  PickleValue* Pop() {
    PickleValue* value = Top();
    if (ok_) stack_.pop_back();
    return value;
  }
  // The values above the last mark, which is removed with them.
  std::vector<const PickleValue*> PopToMark() {
    size_t mark = stack_.size();
    while (mark > 0 && stack_[mark - 1] != nullptr) --mark;
    if (mark == 0) {
      Fail("it needs a mark where the stack has none");
      return {};
    }
    std::vector<const PickleValue*> items(stack_.begin() + static_cast<std::ptrdiff_t>(mark), stack_.end());
    stack_.resize(mark - 1);
    return items;
  }

  // --- Memo.
  void Put(uint64_t index) {
    if (index >= all_.size()) return Fail(Concat("memo index ", index, " is out of range"));
    memo_[index] = Top();
  }
  void Get(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) return Fail(Concat("nothing is in the memo at ", index));
    stack_.push_back(found->second);
  }

  // --- Opcodes of a kind.
  void PushText(Kind kind, std::string_view text) { Push(kind)->text = text; }
  void PushInteger(int64_t integer) { Push(Kind::kInteger)->integer = integer; }
  void PushBool(bool value) { Push(Kind::kBool)->integer = value ? 1 : 0; }
  void PushGlobal(std::string_view module, std::string_view name) {
    PickleValue* value = Push(Kind::kGlobal);
    value->module = module;
    value->text = name;
  }
  void PushLong(uint64_t size);
  void PushTuple(size_t count);
  void PushItems(Kind kind) {
    auto items = PopToMark();
    Push(kind)->items = std::move(items);
  }
  void PushObject(const PickleValue* callable, const PickleValue* arguments) {
    Push(Kind::kObject)->items = {callable, arguments};
  }
  const PickleValue* MakeTuple(std::vector<const PickleValue*> items) {
    PickleValue* tuple = Make(Kind::kTuple);
    tuple->items = std::move(items);
    return tuple;
  }
  void AppendTo(PickleValue* target, const std::vector<const PickleValue*>& items);
  void SetIn(PickleValue* target, const std::vector<const PickleValue*>& items);

  Bytes all_, rest_;
  size_t at_ = 0;
  bool ok_ = true, stopped_ = false;
  std::string error_;
  Pickle pickle_;
  PickleValue scratch_;
  std::vector<PickleValue*> stack_;
  std::unordered_map<uint64_t, PickleValue*> memo_;
};

void PickleMachine::PushLong(uint64_t size) {
  const Bytes bytes = Take(size);
  if (bytes.size() > sizeof(int64_t)) return PushText(Kind::kBigInteger, AsText(bytes));
  // Little-endian two's complement of any length; none at all is 0.
  uint64_t value = !bytes.empty() && (bytes.back() & 0x80) != 0 ? ~uint64_t{0} : 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | bytes[i];
  PushInteger(static_cast<int64_t>(value));
}

void PickleMachine::PushTuple(size_t count) {
  std::vector<const PickleValue*> items(count);
  for (size_t i = count; i-- > 0;) items[i] = Pop();
  Push(Kind::kTuple)->items = std::move(items);
}

void PickleMachine::AppendTo(PickleValue* target, const std::vector<const PickleValue*>& items) {
  // What an object's own append would do is unknown: the items are dropped.
  if (target->Is(Kind::kObject)) return;
  if (!target->Is(Kind::kList) && !target->Is(Kind::kSet)) return Fail(Concat("it appends to ", Describe(*target)));
  target->items.insert(target->items.end(), items.begin(), items.end());
}

void PickleMachine::SetIn(PickleValue* target, const std::vector<const PickleValue*>& items) {
  if (!target->Is(Kind::kDict) && !target->Is(Kind::kObject))
    return Fail(Concat("it sets items in ", Describe(*target)));
  if (items.size() % 2 != 0) return Fail("it sets a key without a value");
  for (size_t i = 0; i < items.size(); i += 2) target->pairs.emplace_back(items[i], items[i + 1]);
}

void PickleMachine::Step(Op op) {
  switch (op) {
    case Op::kProto:
      pickle_.protocol_ = Number<uint8_t>();
      if (pickle_.protocol_ > 5) Fail(Concat("protocol ", pickle_.protocol_, " is unknown; 0 to 5 are read"));
      return;
    case Op::kFrame:
      if (Number<uint64_t>() > rest_.size()) Fail("a frame reaches past the end");
      return;
    case Op::kStop:
      pickle_.root_ = Pop();
      stopped_ = true;
      return;
    case Op::kMark:
      return stack_.push_back(nullptr);
    case Op::kPop:
      if (stack_.empty()) return Fail("it pops from an empty stack");
      return stack_.pop_back();
    case Op::kPopMark:
      PopToMark();
      return;
    case Op::kDup:
      return stack_.push_back(Top());

    case Op::kNone:
      Push(Kind::kNone);
      return;
    case Op::kNewTrue:
      return PushBool(true);
    case Op::kNewFalse:
      return PushBool(false);
    case Op::kInt: {
      const std::string_view line = Line();
      if (line == "01" || line == "00") return PushBool(line == "01");
      return PushInteger(LineNumber<int64_t>(line));
    }
    case Op::kBinInt:
      return PushInteger(Number<int32_t>());
    case Op::kBinInt1:
      return PushInteger(Number<uint8_t>());
    case Op::kBinInt2:
      return PushInteger(Number<uint16_t>());
    case Op::kLong: {
      const std::string_view line = Line();
      if (line.size() > 19) return PushText(Kind::kBigInteger, line);
      return PushInteger(LineNumber<int64_t>(line));
    }
    case Op::kLong1:
      return PushLong(Number<uint8_t>());
    case Op::kLong4:
      return PushLong(Number<uint32_t>());
    case Op::kFloat:
      Push(Kind::kFloat)->real = LineNumber<double>(Line());
      return;
    case Op::kBinFloat:
      Push(Kind::kFloat)->real = std::bit_cast<double>(__builtin_bswap64(Number<uint64_t>()));
      return;

    case Op::kString:
    case Op::kUnicode:
      // Escapes of the text protocols are left as they stand: no name that matters has any.
      return PushText(Kind::kString, Line());
    case Op::kBinString:
    case Op::kBinUnicode:
      return PushText(Kind::kString, AsText(Take(Number<uint32_t>())));
    case Op::kShortBinString:
    case Op::kShortBinUnicode:
      return PushText(Kind::kString, AsText(Take(Number<uint8_t>())));
    case Op::kBinUnicode8:
      return PushText(Kind::kString, AsText(Take(Number<uint64_t>())));
    case Op::kBinBytes:
      return PushText(Kind::kBytes, AsText(Take(Number<uint32_t>())));
    case Op::kShortBinBytes:
      return PushText(Kind::kBytes, AsText(Take(Number<uint8_t>())));
    case Op::kBinBytes8:
    case Op::kByteArray8:
      return PushText(Kind::kBytes, AsText(Take(Number<uint64_t>())));

    case Op::kEmptyTuple:
      return PushTuple(0);
    case Op::kTuple1:
      return PushTuple(1);
    case Op::kTuple2:
      return PushTuple(2);
    case Op::kTuple3:
      return PushTuple(3);
    case Op::kTuple:
      return PushItems(Kind::kTuple);
    case Op::kEmptyList:
      Push(Kind::kList);
      return;
    case Op::kList:
      return PushItems(Kind::kList);
    case Op::kEmptySet:
      Push(Kind::kSet);
      return;
    case Op::kFrozenSet:
      return PushItems(Kind::kSet);
    case Op::kEmptyDict:
      Push(Kind::kDict);
      return;
    case Op::kDict: {
      const auto items = PopToMark();
      return SetIn(Push(Kind::kDict), items);
    }
    case Op::kAppend: {
      const PickleValue* item = Pop();
      return AppendTo(Top(), {item});
    }
    case Op::kAppends:
    case Op::kAddItems: {
      const auto items = PopToMark();
      return AppendTo(Top(), items);
    }
    case Op::kSetItem: {
      const PickleValue* value = Pop();
      const PickleValue* key = Pop();
      return SetIn(Top(), {key, value});
    }
    case Op::kSetItems: {
      const auto items = PopToMark();
      return SetIn(Top(), items);
    }

    case Op::kGet:
      return Get(LineNumber<uint64_t>(Line()));
    case Op::kBinGet:
      return Get(Number<uint8_t>());
    case Op::kLongBinGet:
      return Get(Number<uint32_t>());
    case Op::kPut:
      return Put(LineNumber<uint64_t>(Line()));
    case Op::kBinPut:
      return Put(Number<uint8_t>());
    case Op::kLongBinPut:
      return Put(Number<uint32_t>());
    case Op::kMemoize:
      return Put(memo_.size());

    case Op::kGlobal: {
      const std::string_view module = Line();
      return PushGlobal(module, Line());
    }
    case Op::kStackGlobal: {
      const PickleValue* name = Pop();
      const PickleValue* module = Pop();
      if (!name->Is(Kind::kString) || !module->Is(Kind::kString)) return Fail("a global's name is not a string");
      return PushGlobal(module->text, name->text);
    }
    case Op::kNewObjEx:
      Pop();  // keyword arguments: of no use to inert data
      [[fallthrough]];
    case Op::kReduce:
    case Op::kNewObj: {
      const PickleValue* arguments = Pop();
      const PickleValue* callable = Pop();
      if (!arguments->Is(Kind::kTuple)) return Fail(Concat("a call's arguments are ", Describe(*arguments)));
      return PushObject(callable, arguments);
    }
    case Op::kInst: {
      auto items = PopToMark();
      const std::string_view module = Line();
      PushGlobal(module, Line());
      const PickleValue* callable = Pop();
      return PushObject(callable, MakeTuple(std::move(items)));
    }
    case Op::kObj: {
      auto items = PopToMark();
      if (items.empty()) return Fail("an object without a class");
      const PickleValue* callable = items[0];
      items.erase(items.begin());
      return PushObject(callable, MakeTuple(std::move(items)));
    }
    case Op::kBuild: {
      const PickleValue* state = Pop();
      PickleValue* target = Top();
      if (!target->Is(Kind::kObject)) return Fail(Concat("it sets the state of ", Describe(*target)));
      target->state = state;
      return;
    }
    case Op::kPersId:
      PushText(Kind::kString, Line());
      [[fallthrough]];
    case Op::kBinPersId: {
      const PickleValue* id = Pop();
      Push(Kind::kPersistent)->items = {id};
      return;
    }

    case Op::kExt1:
    case Op::kExt2:
    case Op::kExt4:
      return Fail("it uses an extension code, which means nothing outside the program that wrote it");
    case Op::kNextBuffer:
    case Op::kReadOnlyBuffer:
      return Fail("it needs an out-of-band buffer, which the file cannot hold");
  }
  Fail(Concat("byte ", static_cast<int>(op), " is no opcode"));
}

absl::StatusOr<Pickle> Pickle::Parse(Bytes bytes) { return PickleMachine(bytes).Run(); }

}  // namespace lion
