#include "model_loader/safetensors.h"

#include <gmock/gmock.h>

#include "tests/model_loader/test_files.h"

namespace lion {
namespace {

using testing::AsBytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Little;
using testing::Safetensors;

std::string Error(const std::string& file) {
  const auto tensors = ReadSafetensors(AsBytes(file));
  EXPECT_FALSE(tensors.ok());
  return tensors.ok() ? "" : std::string(tensors.status().message());
}

// A file with one tensor "t" of this entry and `size` bytes of data.
std::string One(const std::string& entry, size_t size) {
  return Safetensors("{\"t\":" + entry + "}", std::string(size, '\0'));
}

constexpr char kGood[] = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";

TEST(ReadSafetensors, ReadsTensorsWhereTheyLie) {
  const std::string file = Safetensors(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[2,10]},)"
      R"("a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},"e":{"dtype":"I64","shape":[0,7],"data_offsets":[10,10]}}  )",
      Little<uint16_t>(0x4000) + Little(1.5f) + Little(-3.0f));
  const auto tensors = ReadSafetensors(AsBytes(file));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_THAT(ToFloat32(tensors->at("a")), ElementsAre(2.0f));
  EXPECT_THAT(ToFloat32(tensors->at("b")), ElementsAre(1.5f, -3.0f));
  EXPECT_THAT(tensors->at("b").shape, ElementsAre(2, 1));
  EXPECT_EQ(tensors->at("b").data, file.data() + file.size() - 8);
  EXPECT_EQ(tensors->at("e").elements(), 0);
}

TEST(ReadSafetensors, AcceptsAnEmptyModel) { EXPECT_TRUE(ReadSafetensors(AsBytes(Safetensors("{}", ""))).ok()); }

TEST(ReadSafetensors, RefusesShapesThatDoNotMatchTheirOffsets) {
  EXPECT_THAT(Error(One(R"({"dtype":"F32","shape":[32,8],"data_offsets":[0,65536]})", 65536)),
              HasSubstr("tensor t: its shape and dtype need 1024 bytes, its data_offsets give 65536"));
  EXPECT_THAT(Error(One(R"({"dtype":"F32","shape":[8,4],"data_offsets":[0,64]})", 64)), HasSubstr("need 128 bytes"));
  // 91 bytes in all.
  const std::string small = One(R"({"dtype":"F64","shape":[4],"data_offsets":[0,16]})"
                                "            ",
                                16);
  EXPECT_EQ(small.size(), 91u);
  EXPECT_THAT(Error(small), HasSubstr("tensor t: its shape and dtype need 32 bytes, its data_offsets give 16"));
}

TEST(ReadSafetensors, RefusesNegativeAndOverflowingShapes) {
  EXPECT_THAT(Error(One(R"({"dtype":"F32","shape":[-1,4],"data_offsets":[0,16]})", 16)),
              HasSubstr("tensor t: shape holds something else than integers from 0"));
  EXPECT_THAT(Error(One(R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,8]})", 8)), HasSubstr("shape holds"));
  EXPECT_THAT(Error(One(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]})", 8)),
              HasSubstr("shape holds"));
  // 2^62 x 4 x 4 bytes is 0 modulo 2^64.
  EXPECT_THAT(Error(One(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]})", 0)),
              HasSubstr("tensor t: its size overflows"));
}

TEST(ReadSafetensors, RefusesBadOffsets) {
  EXPECT_THAT(Error(One(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", 8)),
              HasSubstr("tensor t: data_offsets end 0 before they begin 8"));
  EXPECT_THAT(Error(One(R"({"dtype":"F32","shape":[2],"data_offsets":[-8,0]})", 8)), HasSubstr("data_offsets holds"));
  EXPECT_THAT(Error(One(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})", 8)),
              HasSubstr("has 1 numbers, expected 2"));
  EXPECT_THAT(Error(One(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 7)), HasSubstr("its data ends at 8"));
}

TEST(ReadSafetensors, RefusesUnknownTypesBeforeAnythingElse) {
  EXPECT_THAT(Error(One(R"({"dtype":"F99","shape":[9],"data_offsets":[1000,2000]})", 8)),
              HasSubstr("tensor t: unknown dtype F99"));
  EXPECT_THAT(Error(One(R"({"dtype":3,"shape":[2],"data_offsets":[0,8]})", 8)), HasSubstr("dtype is no string"));
}

TEST(ReadSafetensors, RefusesHolesOverlapsAndTrailingBytes) {
  const auto two = [](const char* first, const char* second, size_t size) {
    return Safetensors(std::string(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)") + first +
                           R"(},"b":{"dtype":"F32","shape":[2],"data_offsets":)" + second + "}}",
                       std::string(size, '\0'));
  };
  EXPECT_TRUE(ReadSafetensors(AsBytes(two("[8,16]", "[0,8]", 16))).ok());
  EXPECT_THAT(Error(two("[0,8]", "[12,20]", 20)), HasSubstr("tensor b: a hole of 4 bytes"));
  EXPECT_THAT(Error(two("[4,12]", "[12,20]", 20)), HasSubstr("tensor a: a hole of 4 bytes"));
  EXPECT_THAT(Error(two("[0,8]", "[4,12]", 12)), HasSubstr("tensor b: it overlaps the tensor before it by 4"));
  EXPECT_THAT(Error(two("[0,8]", "[8,16]", 17)), HasSubstr("1 bytes follow the last tensor"));
}

TEST(ReadSafetensors, RefusesBadHeaderLengths) {
  EXPECT_THAT(Error("1234567"), HasSubstr("has 7 bytes"));
  EXPECT_THAT(Error(Little(UINT64_MAX) + "{}"), HasSubstr("claims 18446744073709551615 bytes, at most 100000000"));
  EXPECT_THAT(Error(Little<uint64_t>(100'000'001) + "{}"), HasSubstr("at most 100000000"));
  EXPECT_THAT(Error(Little<uint64_t>(3) + "{}"), HasSubstr("reaches out of the file"));
}

TEST(ReadSafetensors, RefusesEveryTruncation) {
  const std::string file = One(kGood, 8);
  ASSERT_TRUE(ReadSafetensors(AsBytes(file)).ok());
  for (size_t size = 0; size < file.size(); ++size) {
    const std::string cut = file.substr(0, size);
    EXPECT_FALSE(ReadSafetensors(AsBytes(cut)).ok()) << size;
  }
}

TEST(ReadSafetensors, RefusesDuplicateKeys) {
  EXPECT_THAT(Error(Safetensors(std::string("{\"t\":") + kGood + ",\"t\":" + kGood + "}", std::string(8, '\0'))),
              HasSubstr("the key \"t\" stands twice"));
  EXPECT_THAT(Error(One(R"({"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]})", 8)),
              HasSubstr("the key \"shape\" stands twice"));
}

TEST(ReadSafetensors, RefusesHeadersThatAreNoMapsOfTensors) {
  EXPECT_THAT(Error(Safetensors("[]", "")), HasSubstr("no JSON object"));
  EXPECT_THAT(Error(Safetensors("{\"t\":1}", "")), HasSubstr("tensor t: its entry is no object"));
  EXPECT_THAT(Error(Safetensors("{\"t\"", "")), HasSubstr("the header: JSON"));
  EXPECT_THAT(Error(Safetensors("{\"\xff\":{}}", "")), HasSubstr("UTF-8"));
  EXPECT_THAT(Error(Safetensors(R"({"__metadata__":{"a":1}})", "")), HasSubstr("\"a\" is not a string"));
  EXPECT_THAT(Error(Safetensors(R"({"__metadata__":[]})", "")), HasSubstr("not a map of strings"));
}

}  // namespace
}  // namespace lion
