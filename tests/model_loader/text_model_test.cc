// Text checkpoints that the goldens do not cover.
#include <gmock/gmock.h>

#include <filesystem>

#include "model_loader/model_loader.h"
#include "tests/model_loader/test_files.h"

namespace lion {
namespace {

using ::testing::Contains;
using testing::Gates;
using ::testing::HasSubstr;
using testing::LoadError;
using testing::Shapes;
using testing::TempFolder;
using testing::TextShapes;

// A folder with these tensors as model.safetensors, and a config.json unless it is empty.
std::string Write(const TempFolder& folder, const Shapes& shapes, const std::string& config) {
  folder.Write("model.safetensors", testing::Safetensors(shapes));
  if (!config.empty()) folder.Write("config.json", config);
  return folder.path();
}

LoadedModel Load(const Shapes& shapes, const std::string& config, const LoadOptions& options = {}) {
  const TempFolder folder;
  auto model = LoadModel(Write(folder, shapes, config), options);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? std::move(*model) : LoadedModel();
}

std::string Error(const Shapes& shapes, const std::string& config, const LoadOptions& options = {}) {
  const TempFolder folder;
  return LoadError(Write(folder, shapes, config), options);
}

TEST(TextModel, LitAndSoftmaxNeedAFlagWithoutAConfiguration) {
  const Shapes shapes = TextShapes(Gates::kNone);
  const std::string error = Error(shapes, "");
  EXPECT_THAT(error, HasSubstr("give --mask-type lit|d|s|softmax"));
  EXPECT_THAT(error, HasSubstr("give --heads"));
  const LoadedModel model = Load(shapes, "", {.variant = Variant::kLionLit, .heads = 4});
  EXPECT_EQ(model.config.variant, Variant::kLionLit);
  EXPECT_EQ(model.config.heads, 4);
  EXPECT_EQ(model.config.max_positions, 8);
}

TEST(TextModel, NamesMayComeWithoutBert) {
  Shapes shapes;
  for (const auto& [name, shape] : TextShapes(Gates::kSelective)) {
    shapes[name.starts_with("bert.") ? name.substr(5) : name] = shape;
  }
  const LoadedModel model = Load(shapes, "");
  EXPECT_EQ(model.config.variant, Variant::kLionS);
  EXPECT_EQ(model.config.heads, 3);
  EXPECT_NE(model.text.word_embeddings.data, nullptr);
}

TEST(TextModel, LayerNormsMayHaveTheirOldNames) {
  Shapes shapes;
  for (const auto& [name, shape] : TextShapes(Gates::kDecay)) {
    std::string old = name;
    if (name.ends_with("LayerNorm.weight")) old = name.substr(0, name.size() - 6) + "gamma";
    if (name.ends_with("LayerNorm.bias")) old = name.substr(0, name.size() - 4) + "beta";
    shapes[old] = shape;
  }
  ASSERT_TRUE(shapes.contains("bert.embeddings.LayerNorm.gamma"));
  EXPECT_EQ(Load(shapes, "").config.variant, Variant::kLionD);
}

TEST(TextModel, IgnoresBuffersAndTheNextSentenceHead) {
  Shapes shapes = TextShapes(Gates::kDecay);
  shapes["bert.embeddings.position_ids"] = {1, 8};
  shapes["cls.seq_relationship.weight"] = {2, 12};
  shapes["cls.seq_relationship.bias"] = {2};
  shapes["bert.encoder.layer.1.attention.self.distance_embedding.weight"] = {15, 4};
  EXPECT_EQ(Load(shapes, "").config.max_positions, 0);
}

TEST(TextModel, NamesEachTensorThatIsMissing) {
  Shapes shapes = TextShapes(Gates::kSelective);
  shapes["bert.pooler.dense.weight"] = {12, 12};
  shapes["bert.pooler.dense.bias"] = {12};
  shapes["classifier.weight"] = {4, 12};
  shapes["classifier.bias"] = {4};
  ASSERT_EQ(Load(shapes, "").config.classes, 4);
  for (const auto& [name, shape] : shapes) {
    if (name == "bert.embeddings.position_embeddings.weight") continue;  // not used by LION-S
    Shapes fewer = shapes;
    fewer.erase(name);
    EXPECT_THAT(Error(fewer, ""), HasSubstr("1 missing: " + name + " ["));
  }
}

TEST(TextModel, RefusesWhatItDoesNotCompute) {
  const Shapes shapes = TextShapes(Gates::kNone);
  EXPECT_THAT(Error(shapes, R"({"arch_type": "lion-lit", "num_attention_heads": 3, "hidden_act": "relu"})"),
              HasSubstr("hidden_act is relu; only gelu"));
  EXPECT_THAT(Error(shapes, R"({"arch_type": "attention", "num_attention_heads": 3,
                                "position_embedding_type": "relative_key"})"),
              HasSubstr("position_embedding_type is relative_key, which softmax attention needs distances for"));
  EXPECT_THAT(
      Error(shapes, R"({"arch_type": "lion-lit", "num_attention_heads": 3, "position_embedding_type": "rope"})"),
      HasSubstr("position_embedding_type is rope, expected"));
}

TEST(TextModel, ConfigurationMustAgreeWithTheTensors) {
  const Shapes shapes = TextShapes(Gates::kDecay);
  EXPECT_THAT(Error(shapes, R"({"arch_type": "lion-s"})"), HasSubstr("arch_type says LION-S, but tensor"));
  EXPECT_THAT(Error(shapes, R"({"num_attention_heads": 4})"), HasSubstr("num_attention_heads says 4, but tensor"));
  EXPECT_THAT(Error(shapes, R"({"hidden_size": 16})"), HasSubstr("hidden_size says 16, but tensor"));
  EXPECT_THAT(Error(shapes, R"({"num_hidden_layers": 3})"), HasSubstr("num_hidden_layers says 3, but"));
  EXPECT_THAT(Error(shapes, R"({"intermediate_size": 48})"), HasSubstr("intermediate_size says 48, but tensor"));
  EXPECT_THAT(Error(shapes, R"({"type_vocab_size": 1})"), HasSubstr("type_vocab_size says 1, but tensor"));
  EXPECT_THAT(Error(shapes, R"({"layer_norm_after": true})"), HasSubstr("layer_norm_after says true, but the absence"));
  EXPECT_THAT(Error(shapes, R"({"position_embedding_type": "absolute", "max_position_embeddings": 9})"),
              HasSubstr("max_position_embeddings says 9, but tensor"));
  EXPECT_THAT(Error(shapes, R"({"vocab_size": 17})"), HasSubstr("vocab_size gives 17 entries, but tensor"));
}

TEST(TextModel, VocabularyComesFromTheTokenizersFiles) {
  const TempFolder folder;
  Write(folder, TextShapes(Gates::kDecay), R"({"vocab_size": 16})");
  folder.Write("tokenizer.json",
               R"({"model": {"vocab": {"a": 0, "b": 9}}, "added_tokens": [{"id": 12, "content": "[X]"}]})");
  const auto from_tokenizer = LoadModel(folder.path(), {});
  ASSERT_TRUE(from_tokenizer.ok()) << from_tokenizer.status();
  EXPECT_EQ(from_tokenizer->config.vocabulary, 13);
  folder.Write("vocab.txt", "[PAD]\n[UNK]\na");
  const auto from_lines = LoadModel(folder.path(), {});
  ASSERT_TRUE(from_lines.ok()) << from_lines.status();
  EXPECT_EQ(from_lines->config.vocabulary, 3);
  folder.Write("vocab.txt", std::string(17, '\n'));
  EXPECT_THAT(LoadError(folder.path()), HasSubstr("vocab.txt gives 17 entries, but tensor"));
}

TEST(TextModel, VocabularyMustBeUtf8) {
  const TempFolder folder;
  Write(folder, TextShapes(Gates::kDecay), "");
  folder.Write("vocab.txt", "[PAD]\n\xe2\x82");
  EXPECT_THAT(LoadError(folder.path()), HasSubstr("vocab.txt: line 2 is not UTF-8: byte 0xe2"));
}

// The bias of the masked LM head has two names. Tensors of the same shape in two shards differ by what they count from.
TEST(TextModel, TheTwoNamesOfTheMaskedLmBiasMustAgree) {
  const auto error = [](const Shapes& second, float first) {
    const TempFolder folder;
    const Shapes shapes = TextShapes(Gates::kDecay);
    folder.Write("a.safetensors", testing::Safetensors(shapes));
    folder.Write("b.safetensors", testing::Safetensors(second, first));
    std::string placement = "\"cls.predictions.decoder.bias\": \"b.safetensors\"";
    for (const auto& [name, shape] : shapes) placement += ", \"" + name + "\": \"a.safetensors\"";
    folder.Write("model.safetensors.index.json", "{\"weight_map\": {" + placement + "}}");
    const auto model = LoadModel(folder.path(), {});
    return model.ok() ? "" : std::string(model.status().message());
  };
  EXPECT_EQ(error({{"cls.predictions.decoder.bias", {16}}}, 0.0f), "");
  EXPECT_THAT(error({{"cls.predictions.decoder.bias", {16}}}, 1.0f),
              HasSubstr("1 contradictory: cls.predictions.decoder.bias [16] and cls.predictions.bias [16] are one "
                        "parameter, but differ"));
  EXPECT_THAT(error({{"cls.predictions.decoder.bias", {15}}}, 0.0f),
              HasSubstr("cls.predictions.decoder.bias [15] and cls.predictions.bias [16]"));
}

TEST(TextModel, OneOutputIsRegression) {
  Shapes shapes = TextShapes(Gates::kDecay);
  shapes["bert.pooler.dense.weight"] = {12, 12};
  shapes["bert.pooler.dense.bias"] = {12};
  shapes["classifier.weight"] = {1, 12};
  shapes["classifier.bias"] = {1};
  EXPECT_TRUE(Load(shapes, "").config.regression);
  EXPECT_THAT(Error(shapes, R"({"problem_type": "single_label_classification"})"), HasSubstr("served as regression"));
  shapes["classifier.weight"] = {2, 12};
  shapes["classifier.bias"] = {2};
  EXPECT_FALSE(Load(shapes, "").config.regression);
  EXPECT_THAT(Error(shapes, R"({"id2label": {"0": "a"}})"), HasSubstr("names 1, but the head has 2 outputs"));
}

TEST(TextModel, PoolerPoolingNeedsAPooler) {
  EXPECT_THAT(Error(TextShapes(Gates::kDecay), "", {.pooling = Pooling::kPooler}),
              HasSubstr("--pooling says pooler, but there is no tensor pooler.dense.weight"));
  EXPECT_EQ(Load(TextShapes(Gates::kDecay), "", {.pooling = Pooling::kLast}).config.pooling, Pooling::kLast);
}

TEST(TextModel, WarnsOfUnknownKeysButNotOfHuggingFacesOwn) {
  const LoadedModel model =
      Load(TextShapes(Gates::kNone), R"({"arch_type": "lion-lit", "num_attention_heads": 3, "model_type": "bert",
                                        "hidden_dropout_prob": 0.1, "use_cache": true, "speed": 3})");
  EXPECT_THAT(model.warnings, Contains("config.json: unknown keys are ignored: speed"));
}

class SentenceEncoder : public ::testing::Test {
 protected:
  SentenceEncoder() {
    Write(folder_, TextShapes(Gates::kNone), R"({"model_type": "bert", "num_attention_heads": 3})");
    folder_.Write("modules.json", R"([{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
                                      {"idx": 1, "path": "pooling", "type": "sentence_transformers.models.Pooling"},
                                      {"idx": 2, "path": "2_N", "type": "sentence_transformers.models.Normalize"}])");
    folder_.Write("sentence_bert_config.json", R"({"max_seq_length": 6, "do_lower_case": false})");
    std::filesystem::create_directory(folder_.path() + "/pooling");
    folder_.Write("pooling/config.json", R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})");
  }
  const TempFolder folder_;
};

TEST_F(SentenceEncoder, IsObeyed) {
  const auto model = LoadModel(folder_.path(), {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->config.variant, Variant::kSoftmax);
  EXPECT_EQ(model->config.pooling, Pooling::kCls);
  EXPECT_TRUE(model->config.normalize);
  EXPECT_EQ(model->config.max_positions, 8);
  EXPECT_EQ(model->config.max_tokens, 6);
}

TEST_F(SentenceEncoder, IsRefusedWhereItsModulesAreNotComputed) {
  folder_.Write("pooling/config.json", R"({"pooling_mode_weightedmean_tokens": true})");
  EXPECT_THAT(LoadError(folder_.path()), HasSubstr("pooling_mode_weightedmean_tokens is not computed"));
  folder_.Write("pooling/config.json", R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})");
  EXPECT_THAT(LoadError(folder_.path()), HasSubstr("pooling_mode_mean_tokens says mean, but"));
  folder_.Write("modules.json", R"([{"path": "", "type": "sentence_transformers.models.Dense"}])");
  EXPECT_THAT(LoadError(folder_.path()), HasSubstr("only Transformer, Pooling and Normalize"));
  folder_.Write("modules.json", R"([{"path": "../x", "type": "sentence_transformers.models.Pooling"}])");
  EXPECT_THAT(LoadError(folder_.path()), HasSubstr("no folder beside it"));
}

// An empty tensor takes no room in a file, whatever its other dimensions claim. (Found by fuzz_settings.)
TEST(TextModel, AWidthThatOverflowsIsRefused) {
  Shapes shapes = TextShapes(Gates::kDecay);
  shapes.erase("bert.embeddings.LayerNorm.weight");
  for (const int64_t width : {INT64_MAX, INT64_MAX / 2, int64_t{1} << 31}) {
    shapes["bert.embeddings.word_embeddings.weight"] = {0, width};
    EXPECT_THAT(Error(shapes, ""), HasSubstr("width: tensors bert.embeddings.LayerNorm.weight [D]"));
  }
}

}  // namespace
}  // namespace lion
