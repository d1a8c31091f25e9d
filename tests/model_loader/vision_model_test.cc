// Tensors of vision checkpoints: prefixes, layouts, and what does not fit.
#include <gmock/gmock.h>

#include "model_loader/model_loader.h"
#include "tests/model_loader/test_files.h"

namespace lion {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Gates;
using ::testing::HasSubstr;
using testing::LoadError;
using ::testing::Not;
using testing::Shapes;
using testing::TempFolder;
using testing::VisionShapes;
namespace p = testing::pickle;

Shapes Prefixed(const Shapes& shapes, const std::string& prefix) {
  Shapes renamed;
  for (const auto& [name, shape] : shapes) renamed[prefix + name] = shape;
  return renamed;
}

const LoadOptions kMean = {.pooling = Pooling::kMean};

TEST(VisionModel, StripsKnownPrefixesAndReportsThem) {
  for (const std::string prefix :
       {"", "module.", "_orig_mod.", "model.", "module._orig_mod.", "_orig_mod.module.model."}) {
    const TempFolder folder;
    const std::string file =
        folder.Write("m.safetensors", testing::Safetensors(Prefixed(VisionShapes(Gates::kDecay), prefix)));
    const auto model = LoadModel(file, kMean);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->stripped_prefix, prefix);
    EXPECT_EQ(model->config.variant, Variant::kLionD);
  }
}

TEST(VisionModel, DoesNotStripUnknownPrefixes) {
  const TempFolder folder;
  const std::string file =
      folder.Write("m.safetensors", testing::Safetensors(Prefixed(VisionShapes(Gates::kDecay), "student.")));
  EXPECT_THAT(LoadError(file, kMean), HasSubstr("neither those of a vision encoder"));
}

TEST(VisionModel, ListsMissingUnexpectedAndMisshapenTensorsAtOnce) {
  const TempFolder folder;
  Shapes shapes = VisionShapes(Gates::kSelective, true);
  shapes.erase("blocks.1.norm2.bias");
  shapes.erase("blocks.0.attn.a2_i.weight");
  shapes["blocks.0.extra.weight"] = {3, 4};
  shapes["blocks.1.mlp.fc2.weight"] = {12, 40};
  const std::string error = LoadError(folder.Write("m.safetensors", testing::Safetensors(shapes)), kMean);
  EXPECT_THAT(error, HasSubstr("2 missing: blocks.0.attn.a2_i.weight [3, 12], blocks.1.norm2.bias [12]"));
  EXPECT_THAT(error, HasSubstr("1 unexpected: blocks.0.extra.weight [3, 4]"));
  EXPECT_THAT(error, HasSubstr("1 misshapen: blocks.1.mlp.fc2.weight is [12, 40], expected [12, 48]"));
}

TEST(VisionModel, NamesEachTensorThatIsMissing) {
  const Shapes shapes = VisionShapes(Gates::kSelective, true);
  for (const auto& [name, shape] : shapes) {
    const TempFolder folder;
    Shapes fewer = shapes;
    fewer.erase(name);
    EXPECT_THAT(LoadError(folder.Write("m.safetensors", testing::Safetensors(fewer)), kMean),
                HasSubstr("1 missing: " + name + " ["));
  }
}

TEST(VisionModel, NamesEachTensorThatIsMisshapen) {
  const Shapes shapes = VisionShapes(Gates::kDecay, false, true);
  for (const auto& [name, shape] : shapes) {
    const TempFolder folder;
    Shapes changed = shapes;
    changed[name].insert(changed[name].begin(), 2);
    EXPECT_THAT(LoadError(folder.Write("m.safetensors", testing::Safetensors(changed)), kMean), HasSubstr(name));
  }
}

TEST(VisionModel, DropsUnusedHeadsOnlyWhenAllowed) {
  const TempFolder folder;
  Shapes shapes = VisionShapes(Gates::kDecay);
  shapes["head_dist.weight"] = {5, 12};
  const std::string file = folder.Write("m.safetensors", testing::Safetensors(shapes));
  EXPECT_THAT(LoadError(file, kMean), HasSubstr("1 unexpected: head_dist.weight"));
  LoadOptions allow = kMean;
  allow.allow_unused = true;
  const auto model = LoadModel(file, allow);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->warnings, Contains(HasSubstr("head_dist.weight is dropped")));
  // A tensor inside the encoder is never unused.
  shapes["blocks.0.attn.q_norm.weight"] = {4};
  EXPECT_THAT(LoadError(folder.Write("m.safetensors", testing::Safetensors(shapes)), allow),
              HasSubstr("1 unexpected: blocks.0.attn.q_norm.weight"));
}

TEST(VisionModel, CountsParametersOnce) {
  const TempFolder folder;
  const Shapes shapes = VisionShapes(Gates::kDecay);
  const auto model = LoadModel(folder.Write("m.safetensors", testing::Safetensors(shapes)), kMean);
  ASSERT_TRUE(model.ok()) << model.status();
  int64_t elements = 0;
  for (const auto& [name, shape] : shapes) {
    int64_t count = 1;
    for (int64_t n : shape) count *= n;
    elements += count;
  }
  EXPECT_EQ(model->parameters, elements);
}

TEST(VisionModel, PositionGridMustBeSquare) {
  const TempFolder folder;
  Shapes shapes = VisionShapes(Gates::kDecay, false, true);
  shapes["pos_embed"] = {1, 1 + 18 * 24, 12};
  EXPECT_THAT(LoadError(folder.Write("m.safetensors", testing::Safetensors(shapes)), kMean),
              HasSubstr("pos_embed is [1, 433, 12], expected [1, 1 + n * n, D]"));
}

// An empty tensor takes no room in a file, whatever its other dimensions claim. (Found by fuzz_settings.)
TEST(VisionModel, SizesThatOverflowAreRefused) {
  const TempFolder folder;
  Shapes shapes = VisionShapes(Gates::kDecay, false, true);
  shapes["pos_embed"] = {0, INT64_MAX, 12};
  EXPECT_THAT(LoadError(folder.Write("m.safetensors", testing::Safetensors(shapes)), kMean),
              HasSubstr("pos_embed is [0, 9223372036854775807, 12], expected [1, 1 + n * n, D]"));
  for (const char* other :
       {"patch_embed.proj.weight", "norm.weight", "blocks.0.mlp.fc1.bias", "blocks.1.mlp.fc1.bias"}) {
    shapes.erase(other);
  }
  for (const int64_t width : {INT64_MAX, INT64_MAX / 2, INT64_MAX / 3 + 1, int64_t{1} << 31}) {
    shapes["cls_token"] = {0, 1, width};
    EXPECT_THAT(LoadError(folder.Write("m.safetensors", testing::Safetensors(shapes)), kMean),
                HasSubstr("width and patch size: tensors norm.weight [D]"));
  }
}

// Model and average with different first elements, in the DeiT layout.
TEST(VisionModel, KeepsModelAndAverageApart) {
  const TempFolder folder;
  std::map<std::string, std::string> storages;
  const Shapes shapes = VisionShapes(Gates::kDecay);
  const std::string model = testing::TorchStateDict(shapes, "", 10.0f, storages);
  const std::string average = testing::TorchStateDict(shapes, "module.", 20.0f, storages);
  const std::string file = folder.Write(
      "checkpoint.pth", testing::TorchArchive(p::Dict({{"model", model}, {"model_ema", average}}), storages));
  LoadOptions options = kMean;
  const auto plain = LoadModel(file, options);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->weights, "model");
  EXPECT_EQ(ToFloat32(plain->vision.norm.weight)[0], 10.0f);
  options.weights = WeightChoice::kEma;
  const auto ema = LoadModel(file, options);
  ASSERT_TRUE(ema.ok()) << ema.status();
  EXPECT_EQ(ema->weights, "ema");
  EXPECT_EQ(ema->stripped_prefix, "module.");
  EXPECT_EQ(ToFloat32(ema->vision.norm.weight)[0], 20.0f);
}

TEST(VisionModel, FindsComposersNesting) {
  const TempFolder folder;
  std::map<std::string, std::string> storages;
  const std::string state = testing::TorchStateDict(VisionShapes(Gates::kDecay), "model.module.", 1.0f, storages);
  const auto model = LoadModel(
      folder.Write(
          "ep0-ba70000-rank0.pt",
          testing::TorchArchive(p::Dict({{"state", p::Dict({{"model", state}})}, {"rng", p::Tuple({})}}), storages)),
      kMean);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->format, "torch zip, Composer layout");
  EXPECT_EQ(model->stripped_prefix, "model.module.");
}

// The views must stay readable after everything but the LoadedModel is gone.
TEST(VisionModel, KeepsItsFileMapped) {
  std::unique_ptr<LoadedModel> kept;
  {
    const TempFolder folder;
    auto model =
        LoadModel(folder.Write("m.safetensors", testing::Safetensors(VisionShapes(Gates::kDecay), 7.0f)), kMean);
    ASSERT_TRUE(model.ok()) << model.status();
    kept = std::make_unique<LoadedModel>(std::move(*model));
  }
  EXPECT_THAT(ToFloat32(kept->vision.blocks[1].decay), ElementsAre(7.0f, 8.0f, 9.0f));
}

TEST(VisionModel, RefusesAnEncoderWithoutBlocks) {
  const TempFolder folder;
  Shapes shapes = VisionShapes(Gates::kNone);
  for (auto it = shapes.begin(); it != shapes.end();) {
    it = it->first.starts_with("blocks.") ? shapes.erase(it) : std::next(it);
  }
  const std::string error = LoadError(folder.Write("m.safetensors", testing::Safetensors(shapes)),
                                      {.variant = Variant::kLionLit, .heads = 3, .pooling = Pooling::kMean});
  EXPECT_THAT(error, HasSubstr("depth: it is 0"));
  EXPECT_THAT(error, Not(HasSubstr("heads")));
}

}  // namespace
}  // namespace lion
