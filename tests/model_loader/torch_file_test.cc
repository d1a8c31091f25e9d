#include "model_loader/torch_file.h"

#include <gmock/gmock.h>

#include "tests/model_loader/test_files.h"

namespace lion {
namespace {

using testing::AsBytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Little;
using testing::TorchArchive;
namespace p = testing::pickle;

std::string Floats(std::initializer_list<float> values) {
  std::string data;
  for (float value : values) data += Little(value);
  return data;
}

std::string Error(const std::string& file, WeightChoice choice = WeightChoice::kModel) {
  const auto torch = ReadTorchFile(AsBytes(file), choice);
  EXPECT_FALSE(torch.ok());
  return torch.ok() ? "" : std::string(torch.status().message());
}

// The error of a file with one tensor "t" in a plain state_dict and a storage "0" of four floats.
std::string TensorError(const std::string& tensor) {
  return Error(TorchArchive(p::Dict({{"t", tensor}}), {{"0", Floats({1, 2, 3, 4})}}));
}

const std::string kFour = p::Storage("FloatStorage", "0", 4);

TEST(ReadTorchFile, ReadsSharedOffsetAndStridedStorages) {
  const std::string storage = p::Storage("FloatStorage", "0", 6);
  const std::string file = TorchArchive(p::OrderedDict({{"rows", p::Tensor(storage, 0, {2, 3}, {3, 1})},
                                                        {"columns", p::Tensor(storage, 0, {3, 2}, {1, 3})},
                                                        {"tail", p::Tensor(storage, 4, {2}, {1})},
                                                        {"scalar", p::Tensor(storage, 5, {}, {})}}),
                                        {{"0", Floats({0, 1, 2, 3, 4, 5})}});
  const auto torch = ReadTorchFile(AsBytes(file), WeightChoice::kModel);
  ASSERT_TRUE(torch.ok()) << torch.status();
  EXPECT_EQ(torch->layout, "plain state_dict");
  EXPECT_THAT(ToFloat32(torch->tensors.at("rows")), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(ToFloat32(torch->tensors.at("columns")), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(ToFloat32(torch->tensors.at("tail")), ElementsAre(4, 5));
  EXPECT_THAT(ToFloat32(torch->tensors.at("scalar")), ElementsAre(5));
}

TEST(ReadTorchFile, ReadsEveryStorageType) {
  const std::pair<const char*, TensorType> types[] = {
      {"DoubleStorage", TensorType::kFloat64}, {"FloatStorage", TensorType::kFloat32},
      {"HalfStorage", TensorType::kFloat16},   {"BFloat16Storage", TensorType::kBFloat16},
      {"LongStorage", TensorType::kInt64},     {"IntStorage", TensorType::kInt32},
      {"ShortStorage", TensorType::kInt16},    {"CharStorage", TensorType::kInt8},
      {"ByteStorage", TensorType::kUint8},     {"BoolStorage", TensorType::kBool}};
  for (const auto& [name, type] : types) {
    const std::string file = TorchArchive(p::Dict({{"t", p::Tensor(p::Storage(name, "0", 1), 0, {1}, {1})}}),
                                          {{"0", std::string(static_cast<size_t>(TensorTypeSize(type)), '\0')}});
    const auto torch = ReadTorchFile(AsBytes(file), WeightChoice::kModel);
    ASSERT_TRUE(torch.ok()) << torch.status();
    EXPECT_EQ(torch->tensors.at("t").type, type);
  }
}

TEST(ReadTorchFile, ReadsParametersAndTensorSubclasses) {
  const std::string tensor = p::Tensor(kFour, 1, {2}, {1});
  const std::string parameter =
      p::Call(p::Global("torch._utils", "_rebuild_parameter"), {tensor, p::Boolean(true), p::OrderedDict({})});
  const std::string subclass =
      p::Call(p::Global("torch._tensor", "_rebuild_from_type_v2"),
              {p::Global("torch._utils", "_rebuild_parameter"), p::Global("torch.nn.parameter", "Parameter"),
               p::Tuple({tensor, p::Boolean(true), p::OrderedDict({})}), p::Dict({})});
  const std::string file = TorchArchive(p::Dict({{"a", parameter}, {"b", subclass}}), {{"0", Floats({1, 2, 3, 4})}});
  const auto torch = ReadTorchFile(AsBytes(file), WeightChoice::kModel);
  ASSERT_TRUE(torch.ok()) << torch.status();
  EXPECT_THAT(ToFloat32(torch->tensors.at("a")), ElementsAre(2, 3));
  EXPECT_THAT(ToFloat32(torch->tensors.at("b")), ElementsAre(2, 3));
}

TEST(ReadTorchFile, RefusesViewsOutsideTheirStorage) {
  EXPECT_THAT(TensorError(p::Tensor(kFour, 0, {5}, {1})),
              HasSubstr("tensor t: its shape, strides and offset 0 reach out"));
  EXPECT_THAT(TensorError(p::Tensor(kFour, 3, {2}, {1})), HasSubstr("reach out"));
  EXPECT_THAT(TensorError(p::Tensor(kFour, 0, {2, 2}, {3, 1})), HasSubstr("reach out"));
  EXPECT_THAT(TensorError(p::Tensor(kFour, 5, {0}, {1})), HasSubstr("reach out"));
  EXPECT_THAT(TensorError(p::Tensor(kFour, -1, {2}, {1})), HasSubstr("its offset is the integer -1"));
  EXPECT_THAT(TensorError(p::Tensor(kFour, 0, {2}, {-1})), HasSubstr("negative number -1"));
  EXPECT_THAT(TensorError(p::Tensor(kFour, 0, {-2}, {1})), HasSubstr("negative number -2"));
  EXPECT_THAT(TensorError(p::Tensor(kFour, 0, {2, 2}, {1})), HasSubstr("2 dimensions and its strides 1"));
  EXPECT_THAT(TensorError(p::Tensor(kFour, 0, {INT64_MAX, 2}, {1, 1})), HasSubstr("reach out"));
  EXPECT_THAT(TensorError(p::Tensor(kFour, 0, {3}, {INT64_MAX})), HasSubstr("reach out"));
}

// A stride of 0 would let one element pose as any number of them.
TEST(ReadTorchFile, RefusesViewsLargerThanTheirStorage) {
  EXPECT_THAT(TensorError(p::Tensor(kFour, 0, {1000000, 1000000}, {0, 0})), HasSubstr("reach out"));
}

TEST(ReadTorchFile, RefusesStoragesThatDoNotHoldWhatTheyClaim) {
  EXPECT_THAT(TensorError(p::Tensor(p::Storage("FloatStorage", "0", 5), 0, {4}, {1})),
              HasSubstr("claims 5 elements of float32, 20 bytes, but entry archive/data/0 has 16 bytes"));
  EXPECT_THAT(TensorError(p::Tensor(p::Storage("FloatStorage", "0", 3), 0, {3}, {1})),
              HasSubstr("claims 3 elements of float32, 12 bytes, but entry archive/data/0 has 16 bytes"));
  EXPECT_THAT(TensorError(p::Tensor(p::Storage("FloatStorage", "0", -1), 0, {3}, {1})),
              HasSubstr("claims -1 elements of float32"));
  EXPECT_THAT(TensorError(p::Tensor(p::Storage("DoubleStorage", "0", 4), 0, {4}, {1})), HasSubstr("claims 4 elements"));
  EXPECT_THAT(TensorError(p::Tensor(p::Storage("FloatStorage", "9", 4), 0, {4}, {1})),
              HasSubstr("no entry is named archive/data/9"));
  EXPECT_THAT(TensorError(p::Tensor(p::Storage("QUInt8Storage", "0", 4), 0, {4}, {1})),
              HasSubstr("storage type is torch.QUInt8Storage, which is not known"));
  EXPECT_THAT(TensorError(p::Tensor(p::Integer(3), 0, {4}, {1})), HasSubstr("its storage is the integer 3"));
}

TEST(ReadTorchFile, RefusesDamagedEntriesThatItUses) {
  const std::string tensor = p::Tensor(kFour, 0, {4}, {1});
  const std::string good =
      TorchArchive(p::Dict({{"a", tensor}, {"b", tensor}}), {{"0", Floats({1, 2, 3, 4})}, {"9", "not used"}});
  const auto flip = [&good](const std::string& text, size_t at) {
    std::string damaged = good;
    damaged[good.find(text) + at] ^= 0x10;
    return damaged;
  };
  ASSERT_TRUE(ReadTorchFile(AsBytes(good), {}).ok());
  EXPECT_THAT(Error(flip(Floats({1, 2, 3, 4}), 6)),
              HasSubstr("tensor a: zip: entry archive/data/0 is damaged: its bytes have CRC-32 0x"));
  EXPECT_THAT(Error(flip("FloatStorage", 0)), HasSubstr("entry archive/data.pkl is damaged"));
  EXPECT_TRUE(ReadTorchFile(AsBytes(flip("not used", 0)), {}).ok());
}

TEST(ReadTorchFile, NamesAnUnknownGlobalThatATensorNeeds) {
  const std::string good = p::Tensor(kFour, 0, {4}, {1});
  const auto error = [&good](const std::string& bad) {
    return Error(TorchArchive(p::Dict({{"good", good}, {"t", bad}}), {{"0", Floats({1, 2, 3, 4})}}));
  };
  EXPECT_THAT(error(p::Call(p::Global("os", "system"), {p::Text("true")})),
              HasSubstr("tensor t: it needs the global os.system"));
  EXPECT_THAT(error(p::Call(p::Global("torch._utils", "_rebuild_sparse_tensor"), {p::Integer(1)})),
              HasSubstr("torch._utils._rebuild_sparse_tensor"));
}

TEST(ReadTorchFile, IgnoresWhatIsNoTensorWithAWarning) {
  const std::string file = TorchArchive(p::Dict({{"t", p::Tensor(kFour, 0, {4}, {1})}, {"epoch", p::Integer(3)}}),
                                        {{"0", Floats({1, 2, 3, 4})}});
  const auto torch = ReadTorchFile(AsBytes(file), WeightChoice::kModel);
  ASSERT_TRUE(torch.ok()) << torch.status();
  EXPECT_THAT(torch->warnings, ElementsAre(HasSubstr("\"epoch\" beside the tensors is the integer 3")));
}

TEST(ReadTorchFile, ReadsArgumentsOfANamespaceAndOfADict) {
  const std::vector<std::pair<std::string, std::string>> values = {
      {"mask_type", p::Text("Decay")}, {"size", p::Integer(3)}, {"flag", p::Boolean(true)}, {"none", "N"}};
  for (const std::string& args : {p::Namespace(values), p::Dict(values)}) {
    const std::string file =
        TorchArchive(p::Dict({{"model", p::OrderedDict({{"t", p::Tensor(kFour, 0, {4}, {1})}})}, {"args", args}}),
                     {{"0", Floats({1, 2, 3, 4})}});
    const auto torch = ReadTorchFile(AsBytes(file), WeightChoice::kModel);
    ASSERT_TRUE(torch.ok()) << torch.status();
    EXPECT_EQ(torch->layout, "DeiT layout");
    EXPECT_EQ(torch->arguments, nlohmann::json::parse(R"({"mask_type":"Decay","size":3,"flag":true,"none":null})"));
  }
}

TEST(ReadTorchFile, NeedsAnAverageToLoadIt) {
  const std::string state = p::OrderedDict({{"t", p::Tensor(kFour, 0, {4}, {1})}});
  const std::map<std::string, std::string> storages = {{"0", Floats({1, 2, 3, 4})}};
  EXPECT_THAT(Error(TorchArchive(p::Dict({{"model", state}}), storages), WeightChoice::kEma), HasSubstr("model_ema"));
  EXPECT_THAT(Error(TorchArchive(state, storages), WeightChoice::kEma), HasSubstr("model_ema"));
  EXPECT_THAT(Error(TorchArchive(p::Dict({{"model_ema", state}}), storages)), HasSubstr("--weights ema chooses"));
}

TEST(ReadTorchFile, RefusesBigEndianFiles) {
  const std::string value = p::Dict({{"t", p::Tensor(kFour, 0, {4}, {1})}});
  const std::map<std::string, std::string> storages = {{"0", Floats({1, 2, 3, 4})}};
  EXPECT_TRUE(ReadTorchFile(AsBytes(TorchArchive(value, storages, {{"archive/byteorder", "little"}})), {}).ok());
  EXPECT_THAT(Error(TorchArchive(value, storages, {{"archive/byteorder", "big"}})), HasSubstr("byteorder is \"big\""));
}

TEST(ReadTorchFile, SaysWhatToDoWithFormatsItDoesNotRead) {
  const std::string legacy = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.";
  EXPECT_THAT(Error(legacy), HasSubstr("before PyTorch 1.6"));
  EXPECT_THAT(Error(legacy), HasSubstr("re-save it"));
  std::string tar(1024, '\0');
  tar.replace(257, 5, "ustar");
  EXPECT_THAT(Error(tar), HasSubstr("tar archive"));
  EXPECT_THAT(Error("\x80\x04N."), HasSubstr("bare pickle"));
  EXPECT_THAT(Error(TorchArchive(p::Dict({}), {}, {{"archive/constants.pkl", "x"}})), HasSubstr("TorchScript"));
  EXPECT_THAT(Error(TorchArchive(p::Call(p::Global("models", "Net"), {}), {})), HasSubstr("object of models.Net"));
  EXPECT_THAT(Error(TorchArchive(p::Dict({{"model", p::Call(p::Global("models", "Net"), {})}}), {})),
              HasSubstr("[\"model\"] is an object of models.Net"));
  EXPECT_THAT(Error(TorchArchive(p::Dict({{"epoch", p::Integer(1)}}), {})),
              HasSubstr("its keys are the string \"epoch\""));
  EXPECT_THAT(Error(testing::Zip({{"hello.txt", "x"}})), HasSubstr("0 entries FOLDER/data.pkl"));
}

}  // namespace
}  // namespace lion
