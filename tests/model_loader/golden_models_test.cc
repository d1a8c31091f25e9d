// Every golden checkpoint loads with the architecture that its own sidecar states, and with the values that a plain
// Python zip and struct reader found in it.
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "model_loader/model_loader.h"
#include "tests/model_loader/test_files.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::SourcePath;

LoadedModel Load(const std::string& golden, const LoadOptions& options = {}) {
  auto model = LoadModel(SourcePath("tests/golden/" + golden), options);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? std::move(*model) : LoadedModel();
}

nlohmann::json ReadConfig(const std::string& golden) {
  return nlohmann::json::parse(testing::ReadFile(SourcePath("tests/golden/" + golden + "/config.json")));
}

void ExpectFloats(const std::vector<float>& values, std::initializer_list<std::pair<size_t, float>> expected) {
  for (const auto& [index, value] : expected) EXPECT_EQ(values.at(index), value) << index;
}

class GoldenVision : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenVision, LoadsAsItsSidecarSays) {
  const std::string name = std::string("vision/") + GetParam();
  const nlohmann::json expected = ReadConfig(name);
  const LoadedModel model = Load(name + "/checkpoint.pth");
  const ModelConfig& config = model.config;
  EXPECT_EQ(config.modality, Modality::kVision);
  EXPECT_EQ(config.variant, ParseVariant(expected["mask_type"].get<std::string>()));
  EXPECT_EQ(config.order, expected["order"] == "S" ? PatchOrder::kS : PatchOrder::kNormal);
  EXPECT_EQ(config.pooling, expected["cls_tok"] == true ? Pooling::kCls : Pooling::kMean);
  EXPECT_EQ(config.position_grid, expected["pos_emb"] == true ? 8 : 0);
  EXPECT_EQ(config.heads, expected["num_heads"]);
  EXPECT_EQ(config.depth, expected["depth"]);
  EXPECT_EQ(config.width, expected["embed_dim"]);
  EXPECT_EQ(config.patch_size, expected["patch_size"]);
  EXPECT_EQ(config.mlp_width, 4 * config.width);
  EXPECT_EQ(config.image.size, expected["img_size"]);
  EXPECT_EQ(config.layer_norm_eps, 1e-6);
  const bool headless = name.ends_with("headless");
  EXPECT_EQ(config.classes, headless ? 0 : 10);
  EXPECT_EQ(model.vision.head.weight.data == nullptr, headless);
  ASSERT_EQ(static_cast<int64_t>(model.vision.blocks.size()), config.depth);
  for (const VisionBlockWeights& block : model.vision.blocks) {
    EXPECT_EQ(block.gate.weight.data != nullptr, config.variant == Variant::kLionS);
    EXPECT_EQ(block.decay.data != nullptr, config.variant == Variant::kLionD);
    const bool columns = config.order == PatchOrder::kS;
    EXPECT_EQ(block.gate2.weight.data != nullptr, config.variant == Variant::kLionS && columns);
    EXPECT_EQ(block.decay2.data != nullptr, config.variant == Variant::kLionD && columns);
    EXPECT_THAT(block.qkv.weight.shape, ElementsAre(144, 48));
  }
  // Also as a folder, whatever else lies in it.
  EXPECT_EQ(Load(name).file, model.file);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenVision,
                         ::testing::Values("decay_long", "decay_normal", "decay_s", "lit_normal", "lit_s",
                                           "plain_state_dict_headless", "selective_long", "selective_normal",
                                           "selective_s", "selective_s_pos_cls", "softmax_vit"));

TEST(GoldenVision, TakesEverythingFromTheArgumentsWithoutASidecar) {
  const LoadedModel model = Load("vision/tiny_from_args_only");
  EXPECT_EQ(model.config.variant, Variant::kLionS);
  EXPECT_EQ(model.config.order, PatchOrder::kS);
  EXPECT_EQ(model.config.pooling, Pooling::kMean);
  EXPECT_EQ(model.config.width, 192);
  EXPECT_EQ(model.config.heads, 3);
  EXPECT_EQ(model.config.depth, 1);
  EXPECT_EQ(model.config.patch_size, 16);
  EXPECT_EQ(model.config.classes, 10);
  EXPECT_EQ(model.config.image.size, 32);
  EXPECT_EQ(model.config.image.crop_ratio, 0.875);
}

TEST(GoldenVision, ReadsSharedOffsetTransposedAndConvertedTensors) {
  const LoadedModel model = Load("vision/plain_state_dict_headless");
  EXPECT_EQ(model.stripped_prefix, "module.");
  EXPECT_EQ(model.format, "torch zip, plain state_dict");
  const VisionWeights& weights = model.vision;
  EXPECT_EQ(weights.cls_token.type, TensorType::kFloat64);
  ExpectFloats(ToFloat32(weights.cls_token), {{0, 0.5276047587394714f}, {47, 0.47818657755851746f}});
  EXPECT_THAT(weights.blocks[0].proj.weight.strides, ElementsAre(1, 48));
  ExpectFloats(ToFloat32(weights.blocks[0].proj.weight), {{0, -0.10710430145263672f},
                                                          {1, -0.07836650311946869f},
                                                          {48, 0.09639519453048706f},
                                                          {47 * 48 + 46, -0.1361965537071228f}});
  // fc1 starts at element 7 of the storage whose end is norm.weight.
  ExpectFloats(ToFloat32(weights.blocks[0].fc1.weight), {{0, 0.4289701282978058f}, {9215, -0.1769215166568756f}});
  ExpectFloats(ToFloat32(weights.norm.weight), {{0, 0.8460491299629211f}, {47, 1.1007524728775024f}});
  EXPECT_EQ(weights.norm.bias.type, TensorType::kBFloat16);
  ExpectFloats(ToFloat32(weights.norm.bias), {{0, -0.000720977783203125f}, {1, 0.271484375f}, {47, 0.2119140625f}});
}

TEST(GoldenVision, LoadsTheAverageWhenAsked) {
  const LoadedModel model = Load("vision/selective_s");
  EXPECT_EQ(model.weights, "model");
  EXPECT_EQ(ToFloat32(model.vision.cls_token)[0], -0.6097440123558044f);
  const LoadedModel average = Load("vision/selective_s", {.weights = WeightChoice::kEma});
  EXPECT_EQ(average.weights, "ema");
  EXPECT_EQ(ToFloat32(average.vision.cls_token)[0], -0.5997440218925476f);
  EXPECT_EQ(Load("vision/lit_s").weights, "");
}

class GoldenText : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenText, LoadsAsItsSidecarSays) {
  const std::string name = std::string("text/") + GetParam();
  const nlohmann::json expected = ReadConfig(name);
  const LoadedModel model = Load(name);
  const ModelConfig& config = model.config;
  EXPECT_EQ(config.modality, Modality::kText);
  EXPECT_EQ(config.variant, ParseVariant(expected["arch_type"].get<std::string>()));
  EXPECT_EQ(config.width, expected["hidden_size"]);
  EXPECT_EQ(config.depth, expected["num_hidden_layers"]);
  EXPECT_EQ(config.heads, expected["num_attention_heads"]);
  EXPECT_EQ(config.mlp_width, expected["intermediate_size"]);
  EXPECT_EQ(config.type_vocabulary, expected["type_vocab_size"]);
  EXPECT_EQ(config.layer_norm_eps, expected["layer_norm_eps"]);
  EXPECT_EQ(config.mixer_layer_norm, expected["layer_norm_after"]);
  const bool absolute = expected["position_embedding_type"] == "absolute";
  EXPECT_EQ(config.max_positions, absolute ? 64 : 0);
  EXPECT_EQ(model.text.position_embeddings.data != nullptr, absolute);
  EXPECT_EQ(config.masked_lm, expected["architectures"][0] == "BertForMaskedLM");
  const auto labels = expected.value("id2label", std::map<std::string, std::string>());
  EXPECT_EQ(config.classes, static_cast<int64_t>(labels.size()));
  EXPECT_EQ(config.regression, labels.size() == 1);
  EXPECT_EQ(config.pooler, !labels.empty());
  EXPECT_EQ(config.pooling, Pooling::kMean);
  std::vector<std::string> texts;
  for (const auto& [index, label] : labels) texts.push_back(label);
  EXPECT_THAT(config.labels, ElementsAreArray(texts));
  ASSERT_EQ(static_cast<int64_t>(model.text.layers.size()), config.depth);
  for (const TextLayerWeights& layer : model.text.layers) {
    EXPECT_EQ(layer.gate.weight.data != nullptr, config.variant == Variant::kLionS);
    EXPECT_EQ(layer.decay.data != nullptr, config.variant == Variant::kLionD);
    EXPECT_EQ(layer.mixer_norm.weight.data != nullptr, config.mixer_layer_norm);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenText,
                         ::testing::Values("linear_attention_mlm", "lion_d_cls_f16", "lion_d_mlm", "lion_d_regression",
                                           "lion_lit_mlm", "lion_lit_sharded", "lion_s_mlm",
                                           "lion_s_padded_vocab_untied", "nova_inputdep_cls", "softmax_bert_mlm"));

TEST(GoldenText, TellsTheVocabularyFromTheTablesRows) {
  const LoadedModel model = Load("text/lion_s_padded_vocab_untied");
  EXPECT_EQ(model.config.vocabulary, 203);
  EXPECT_THAT(model.text.word_embeddings.shape, ElementsAre(208, 48));
  EXPECT_NE(model.text.mlm_decoder.data, model.text.word_embeddings.data);
  const LoadedModel tied = Load("text/lion_s_mlm");
  EXPECT_EQ(tied.config.vocabulary, 200);
  EXPECT_EQ(tied.text.mlm_decoder.data, tied.text.word_embeddings.data);
}

TEST(GoldenText, ReadsHalves) {
  const LoadedModel model = Load("text/lion_d_cls_f16");
  EXPECT_EQ(model.text.word_embeddings.type, TensorType::kFloat16);
  EXPECT_EQ(ToFloat32(model.text.word_embeddings)[0], -1.1357421875f);
  EXPECT_THAT(ToFloat32(model.text.layers[0].decay),
              ElementsAre(1.3251953125f, 0.4384765625f, -1.875f, -0.2186279296875f));
}

TEST(GoldenText, ReportsFormatAndPrefix) {
  EXPECT_EQ(Load("text/lion_lit_sharded").format, "safetensors, 2 shards");
  const LoadedModel composer = Load("text/lion_d_mlm/latest-rank0.pt");
  EXPECT_EQ(composer.format, "torch zip, Composer layout");
  EXPECT_EQ(composer.stripped_prefix, "model.");
}

// Composer writes no configuration: everything of LION-D and LION-S is in the tensors.
TEST(GoldenText, ComposerCheckpointsLoadWithoutASidecar) {
  for (const auto& [name, variant] :
       {std::pair{"lion_d_mlm", Variant::kLionD}, {"nova_inputdep_cls", Variant::kLionS}}) {
    const testing::TempFolder folder;
    const std::string file = SourcePath(std::string("tests/golden/text/") + name + "/latest-rank0.pt");
    std::filesystem::copy(file, folder.path());
    const auto model = LoadModel(folder.path(), {});
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->config.variant, variant);
    EXPECT_EQ(model->config.heads, 4);
    EXPECT_EQ(model->config.max_positions, 0);
    EXPECT_EQ(model->config.vocabulary, 200);
    EXPECT_EQ(model->config.layer_norm_eps, 1e-12);
  }
}

}  // namespace
}  // namespace lion
