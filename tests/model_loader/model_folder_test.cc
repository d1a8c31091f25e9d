// Which file of a folder is the model, and sharded checkpoints.
#include "model_loader/model_folder.h"

#include <gmock/gmock.h>

#include "model_loader/model_loader.h"
#include "tests/model_loader/test_files.h"

namespace lion {
namespace {

using ::testing::Contains;
using ::testing::EndsWith;
using testing::Gates;
using ::testing::HasSubstr;
using testing::LoadError;
using testing::Shapes;
using testing::TempFolder;
using testing::VisionShapes;

const LoadOptions kMean = {.pooling = Pooling::kMean};

std::string Found(const TempFolder& folder) {
  const auto found = FindCheckpoint(folder.path());
  EXPECT_TRUE(found.ok()) << found.status();
  return found.ok() ? found->path.substr(folder.path().size() + 1) : "";
}

TEST(FindCheckpoint, TakesWellKnownNamesFirst) {
  for (const char* name : {"model.safetensors", "pytorch_model.bin", "checkpoint.pth", "latest-rank0.pt"}) {
    const TempFolder folder;
    folder.Write(name, "x");
    folder.Write("expected.safetensors", "x");
    folder.Write("training_args.bin", "x");
    EXPECT_EQ(Found(folder), name);
  }
}

TEST(FindCheckpoint, TakesTheOnlyFileOfAnyName) {
  for (const char* name : {"a.pth", "b.pt", "c.bin", "d.safetensors"}) {
    const TempFolder folder;
    folder.Write(name, "x");
    folder.Write("optimizer.pt", "x");
    folder.Write("README.md", "x");
    EXPECT_EQ(Found(folder), name);
  }
}

TEST(FindCheckpoint, PassesOverTheSameModelInTheOlderFormat) {
  const TempFolder folder;
  folder.Write("model.safetensors", "x");
  folder.Write("pytorch_model.bin", "x");
  EXPECT_EQ(Found(folder), "model.safetensors");
  EXPECT_THAT(FindCheckpoint(folder.path())->passed_over, Contains("pytorch_model.bin"));
}

TEST(FindCheckpoint, RefusesToChoose) {
  const TempFolder folder;
  folder.Write("a.pth", "x");
  folder.Write("b.safetensors", "x");
  EXPECT_THAT(LoadError(folder.path()), HasSubstr("name one of them: a.pth, b.safetensors"));
  folder.Write("checkpoint.pth", "x");
  folder.Write("model.safetensors", "x");
  EXPECT_THAT(LoadError(folder.path()), HasSubstr("name one of them: model.safetensors, checkpoint.pth"));
}

TEST(FindCheckpoint, SaysWhenThereIsNone) {
  const TempFolder folder;
  const auto model = LoadModel(folder.path(), {});
  EXPECT_EQ(model.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(LoadModel(folder.path() + "/none", {}).status().code(), absl::StatusCode::kNotFound);
}

TEST(LoadModel, SaysWhatAFileIsThatItCannotRead) {
  const TempFolder folder;
  EXPECT_THAT(LoadError(folder.Write("a.bin", "hello")),
              HasSubstr("neither a torch.save archive (zip) nor a safetensors"));
  EXPECT_THAT(LoadError(folder.Write("b.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n")),
              HasSubstr("Git LFS pointer"));
  EXPECT_THAT(LoadError(folder.Write("c.pth", "")), HasSubstr("is empty"));
}

// ListModels names the file.
TEST(LoadModel, RefusesNamesThatAreNotUtf8) {
  const TempFolder folder;
  EXPECT_THAT(LoadError(folder.Write("m\xff.safetensors", testing::Safetensors(VisionShapes(Gates::kDecay))), kMean),
              HasSubstr("the name of the file or of a folder above it is not UTF-8"));
}

// The header's length may begin with the bytes of a pickle: 0x80, protocol 2.
TEST(LoadModel, TellsSafetensorsFromPickles) {
  const TempFolder folder;
  std::string header = R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  header.resize(0x0280, ' ');
  const std::string file = testing::Safetensors(header, "1234");
  ASSERT_EQ(file.substr(0, 2), "\x80\x02");
  EXPECT_THAT(LoadError(folder.Write("m.bin", file)), HasSubstr("its 1 tensors (t"));
  EXPECT_THAT(LoadError(folder.Write("n.bin", "\x80\x02N.")), HasSubstr("bare pickle"));
}

// --- Shards.

class Shards : public ::testing::Test {
 protected:
  Shards() {
    for (const auto& [name, shape] : VisionShapes(Gates::kDecay)) {
      (name < "blocks.1" ? first_ : second_)[name] = shape;
    }
  }
  // Writes both shards and an index that places every tensor, changed by `replace` -> `by`.
  void Write(const std::string& replace = "", const std::string& by = "") {
    folder_.Write("s-1.safetensors", testing::Safetensors(first_));
    folder_.Write("s-2.safetensors", testing::Safetensors(second_));
    std::string index = R"({"metadata": {"total_size": 1}, "weight_map": {)";
    const char* separator = "";
    for (const auto& [shapes, file] : {std::pair{first_, "s-1"}, {second_, "s-2"}}) {
      for (const auto& [name, shape] : shapes) {
        index += std::string(separator) + "\"" + name + "\": \"" + file + ".safetensors\"";
        separator = ", ";
      }
    }
    index += "}}";
    if (!replace.empty()) index.replace(index.find(replace), replace.size(), by);
    folder_.Write("model.safetensors.index.json", index);
  }
  const TempFolder folder_;
  Shapes first_, second_;
};

TEST_F(Shards, LoadAsOneModel) {
  Write();
  const auto model = LoadModel(folder_.path(), kMean);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->format, "safetensors, 2 shards");
  EXPECT_THAT(model->file, EndsWith("model.safetensors.index.json"));
}

TEST_F(Shards, MustHoldWhatTheIndexSays) {
  Write("\"blocks.0.norm1.bias\": \"s-1", "\"blocks.0.norm1.bias\": \"s-2");
  EXPECT_THAT(LoadError(folder_.path(), kMean), HasSubstr("blocks.0.norm1.bias is not in s-2.safetensors"));
  Write("\"blocks.0.norm1.bias\": \"s-1.safetensors\", ");
  EXPECT_THAT(LoadError(folder_.path(), kMean),
              HasSubstr("blocks.0.norm1.bias of s-1.safetensors is not in the index"));
  Write("s-1.safetensors", "s-3.safetensors");
  EXPECT_THAT(LoadError(folder_.path(), kMean), HasSubstr("s-3.safetensors: cannot open"));
  second_["blocks.0.norm1.bias"] = {12};
  Write(", \"blocks.0.norm1.bias\": \"s-2.safetensors\"");
  EXPECT_THAT(LoadError(folder_.path(), kMean), HasSubstr("blocks.0.norm1.bias is in several shards"));
}

TEST_F(Shards, StayInTheirFolder) {
  for (const char* name : {"../s-1.safetensors", "/etc/passwd", "..", ""}) {
    Write("\"blocks.0.norm1.bias\": \"s-1.safetensors\"", std::string("\"blocks.0.norm1.bias\": \"") + name + "\"");
    EXPECT_THAT(LoadError(folder_.path(), kMean), HasSubstr("not the plain name of a file"));
  }
  Write("\"blocks.0.norm1.bias\": \"s-1.safetensors\"", "\"blocks.0.norm1.bias\": 3");
  EXPECT_THAT(LoadError(folder_.path(), kMean), HasSubstr("not the plain name of a file"));
}

TEST_F(Shards, NeedAnIndexThatIsOne) {
  Write("\"blocks.0.norm1.bias\"", "\"blocks.0.attn.a_i\"");
  EXPECT_THAT(LoadError(folder_.path(), kMean), HasSubstr("\"blocks.0.attn.a_i\" stands twice"));
  folder_.Write("model.safetensors.index.json", "{}");
  EXPECT_THAT(LoadError(folder_.path(), kMean), HasSubstr("holds no weight_map"));
}

}  // namespace
}  // namespace lion
