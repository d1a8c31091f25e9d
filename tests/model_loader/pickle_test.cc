#include "model_loader/pickle.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "tests/model_loader/test_files.h"

namespace lion {
namespace {

using testing::AsBytes;
using ::testing::HasSubstr;
using testing::Little;
using Kind = PickleValue::Kind;
namespace p = testing::pickle;

// The bytes must outlive the result.
Pickle Parse(const std::string& bytes) {
  auto pickle = Pickle::Parse(AsBytes(bytes));
  EXPECT_TRUE(pickle.ok()) << pickle.status();
  return pickle.ok() ? std::move(*pickle) : std::move(*Pickle::Parse(AsBytes("N.")));
}

std::string Error(const std::string& bytes) {
  const auto pickle = Pickle::Parse(AsBytes(bytes));
  EXPECT_FALSE(pickle.ok());
  return pickle.ok() ? "" : std::string(pickle.status().message());
}

TEST(Pickle, ReadsPlainValues) {
  const std::string bytes = p::Finish(p::Dict({{"i", p::Integer(-5)},
                                               {"t", p::Boolean(true)},
                                               {"s", p::Text("x\ny")},
                                               {"f", "G\x3f\xf8" + std::string(6, '\0')},
                                               {"l",
                                                "](K\x01M\x01\x02"
                                                "e"},
                                               {"n", "N"}}));
  const Pickle pickle = Parse(bytes);
  const PickleValue& root = pickle.root();
  EXPECT_EQ(root.Get("i")->integer, -5);
  EXPECT_EQ(root.Get("t")->integer, 1);
  EXPECT_EQ(root.Get("s")->text, "x\ny");
  EXPECT_EQ(root.Get("f")->real, 1.5);
  ASSERT_EQ(root.Get("l")->items.size(), 2u);
  EXPECT_EQ(root.Get("l")->items[1]->integer, 513);
  EXPECT_TRUE(root.Get("n")->Is(Kind::kNone));
  EXPECT_EQ(root.Get("absent"), nullptr);
}

TEST(Pickle, ReadsIntegersOfAnyLength) {
  EXPECT_EQ(Parse(p::Finish("\x8a" + std::string(1, '\0'))).root().integer, 0);
  EXPECT_EQ(Parse(p::Finish("\x8a\x01\xff")).root().integer, -1);
  EXPECT_EQ(Parse(p::Finish("\x8a\x02\xff" + std::string(1, '\0'))).root().integer, 255);
  EXPECT_EQ(Parse(p::Finish("\x8a\x08" + Little(INT64_MIN))).root().integer, INT64_MIN);
  EXPECT_TRUE(Parse(p::Finish("\x8a\x09" + std::string(9, '\x7f'))).root().Is(Kind::kBigInteger));
  EXPECT_EQ(Parse("I-12\n.").root().integer, -12);
  EXPECT_EQ(Parse("L34L\n.").root().integer, 34);
  EXPECT_TRUE(Parse("I01\n.").root().Is(Kind::kBool));
}

TEST(Pickle, ReadsTheOpcodesOfProtocols4And5) {
  // {"k": (b"b", frozenset({1}), 'module.name')}, framed and memoised.
  const std::string body =
      "}\x94\x8c\x01k\x94(C\x01"
      "b(K\x01\x91\x8c\x06module\x8c\x04name\x93t\x94s.";
  const std::string bytes = std::string("\x80\x05\x95") + Little(static_cast<uint64_t>(body.size())) + body;
  const Pickle pickle = Parse(bytes);
  EXPECT_EQ(pickle.protocol(), 5);
  const auto& items = pickle.root().Get("k")->items;
  ASSERT_EQ(items.size(), 3u);
  EXPECT_EQ(items[0]->text, "b");
  EXPECT_EQ(items[1]->items.size(), 1u);
  EXPECT_TRUE(items[2]->IsGlobal("module", "name"));
}

TEST(Pickle, KeepsCallsAsDataAndRunsNothing) {
  // What pickle.loads would execute: os.system("touch FILE") and eval.
  const testing::TempFolder folder;
  const std::string marker = folder.path() + "/executed";
  const std::string bytes = p::Finish(p::Dict(
      {{"a", p::Call(p::Global("os", "system"), {p::Text("touch " + marker)})},
       {"b", p::Call(p::Global("builtins", "eval"), {p::Text("__import__('os').system('touch " + marker + "')")})},
       {"c", "(S'touch " + marker + "'\nios\nsystem\n"},
       {"d", p::Build(p::Call(p::Global("no.such.module", "Thing"), {}), p::Dict({{"x", p::Integer(1)}}))}}));
  const Pickle pickle = Parse(bytes);
  EXPECT_EQ(Describe(*pickle.root().Get("a")), "os.system");
  EXPECT_EQ(Describe(*pickle.root().Get("b")), "builtins.eval");
  EXPECT_EQ(Describe(*pickle.root().Get("c")), "os.system");
  EXPECT_EQ(Describe(*pickle.root().Get("d")), "no.such.module.Thing");
  EXPECT_EQ(pickle.root().Get("d")->state->Get("x")->integer, 1);
  EXPECT_FALSE(std::filesystem::exists(marker));
}

TEST(Pickle, SurvivesDeepNesting) {
  constexpr int kDepth = 1000000;
  const std::string bytes = std::string(kDepth, ']') + std::string(kDepth - 1, 'a') + ".";
  const PickleValue* value = nullptr;
  const Pickle pickle = Parse(bytes);
  int depth = 0;
  for (value = &pickle.root(); !value->items.empty(); value = value->items[0]) ++depth;
  EXPECT_EQ(depth, kDepth - 1);
  EXPECT_THAT(Error(std::string(kDepth, '(') + "."), HasSubstr("stack has none"));
}

TEST(Pickle, SurvivesValuesThatContainThemselvesAndMemoBombs) {
  const std::string loop =
      "]q\x01h\x01"
      "a.";
  const Pickle pickle = Parse(loop);
  EXPECT_EQ(pickle.root().items[0], &pickle.root());
  // Each list holds the one before twice: 2^40 elements if copied.
  std::string bomb = "]q" + std::string(1, '\0');
  for (char i = 0; i < 40; ++i) {
    bomb += std::string("](h") + i + "h" + i + "eq" + static_cast<char>(i + 1);
  }
  const std::string bytes = bomb + ".";
  EXPECT_EQ(Parse(bytes).root().items.size(), 2u);
}

TEST(Pickle, RefusesMemoIndicesOutOfRange) {
  EXPECT_THAT(Error("Nq\xff."), HasSubstr("memo index 255 is out of range"));
  EXPECT_THAT(Error("Nr\xff\xff\xff\xff."), HasSubstr("memo index 4294967295 is out of range"));
  EXPECT_THAT(Error("Np99999999999\n."), HasSubstr("out of range"));
  EXPECT_THAT(Error("h\x07."), HasSubstr("nothing is in the memo at 7"));
}

TEST(Pickle, RefusesMoreValuesThanItsLimit) {
  EXPECT_THAT(Error(std::string(4200000, 'N') + "."), HasSubstr("more than 4194304 values"));
}

TEST(Pickle, AllocatesNothingThatALengthClaims) {
  EXPECT_THAT(Error("X\xff\xff\xff\xff"
                    "abc."),
              HasSubstr("4294967295 bytes reaches past the end"));
  EXPECT_THAT(Error("\x8d" + std::string(8, '\xff') + "abc."), HasSubstr("reaches past the end"));
  EXPECT_THAT(Error("\x8b\xff\xff\xff\x7f."), HasSubstr("reaches past the end"));
  EXPECT_THAT(Error("\x95" + std::string(8, '\xff') + "N."), HasSubstr("a frame reaches past the end"));
}

TEST(Pickle, NamesWhatIsWrongAndWhere) {
  EXPECT_THAT(Error(""), HasSubstr("without a STOP"));
  EXPECT_THAT(Error("N"), HasSubstr("at byte 1: it ends without a STOP"));
  EXPECT_THAT(Error("\x80\x06N."), HasSubstr("protocol 6 is unknown"));
  EXPECT_THAT(Error("\x01."), HasSubstr("byte 1 is no opcode"));
  EXPECT_THAT(Error("."), HasSubstr("the stack has none"));
  EXPECT_THAT(Error("NNa."), HasSubstr("it appends to None"));
  EXPECT_THAT(Error("}N(Nu."), HasSubstr("sets items in None"));
  EXPECT_THAT(Error("}(Nu."), HasSubstr("a key without a value"));
  EXPECT_THAT(Error("cos\nsystem\nNR."), HasSubstr("arguments are None"));
  EXPECT_THAT(Error("Nt."), HasSubstr("needs a mark"));
  EXPECT_THAT(Error("I12x\n."), HasSubstr("\"12x\" is no number"));
  EXPECT_THAT(Error("I99999999999999999999\n."), HasSubstr("no number that fits"));
  EXPECT_THAT(Error("cos"), HasSubstr("no end of line"));
  EXPECT_THAT(Error("\x82\x01."), HasSubstr("extension code"));
  EXPECT_THAT(Error("\x97."), HasSubstr("out-of-band buffer"));
}

TEST(Pickle, RefusesEveryTruncation) {
  const std::string bytes =
      p::Finish(p::Dict({{"model", p::Tensor(p::Storage("FloatStorage", "0", 4), 0, {2, 2}, {2, 1})},
                         {"args", p::Namespace({{"x", p::Integer(1)}})}}));
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string cut = bytes.substr(0, size);
    EXPECT_FALSE(Pickle::Parse(AsBytes(cut)).ok()) << size;
  }
}

}  // namespace
}  // namespace lion
