// Who decides: tensors, then flags, then config.json, then the checkpoint's args.
#include <gmock/gmock.h>

#include "model_loader/model_loader.h"
#include "tests/model_loader/test_files.h"

namespace lion {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Gates;
using ::testing::HasSubstr;
using testing::Shapes;
using testing::TempFolder;
using testing::VisionShapes;
namespace p = testing::pickle;

using Arguments = std::vector<std::pair<std::string, std::string>>;

// A checkpoint of these tensors with args, and a config.json unless it is empty.
class Files {
 public:
  Files(const Shapes& shapes, const std::string& config, const Arguments& arguments = {}) {
    std::map<std::string, std::string> storages;
    const std::string state = testing::TorchStateDict(shapes, "", 0.0f, storages);
    file_ =
        folder_.Write("checkpoint.pth",
                      testing::TorchArchive(p::Dict({{"model", state}, {"args", p::Namespace(arguments)}}), storages));
    if (!config.empty()) folder_.Write("config.json", config);
  }
  LoadedModel Load(const LoadOptions& options = {}) const {
    auto model = LoadModel(file_, options);
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? std::move(*model) : LoadedModel();
  }
  std::string Error(const LoadOptions& options = {}) const { return testing::LoadError(file_, options); }
  const TempFolder& folder() const { return folder_; }

 private:
  TempFolder folder_;
  std::string file_;
};

std::string Origin(const LoadedModel& model, const std::string& key) {
  for (const Provenance& value : model.provenance) {
    if (value.key == key) return value.origin;
  }
  return "";
}

TEST(VisionSettings, EachValueThatNobodyGivesIsAnErrorNamingItsFlag) {
  const std::string error = Files(VisionShapes(Gates::kNone), "").Error();
  EXPECT_THAT(error, AllOf(HasSubstr("give --mask-type lit|d|s|softmax"), HasSubstr("give --heads"),
                           HasSubstr("give --pooling")));
}

TEST(VisionSettings, FlagsFillWhatIsMissing) {
  const LoadedModel model =
      Files(VisionShapes(Gates::kNone), "")
          .Load({.variant = Variant::kSoftmax, .order = PatchOrder::kS, .heads = 2, .pooling = Pooling::kCls});
  EXPECT_EQ(model.config.variant, Variant::kSoftmax);
  EXPECT_EQ(model.config.heads, 2);
  EXPECT_EQ(model.config.pooling, Pooling::kCls);
  EXPECT_EQ(Origin(model, "heads"), "--heads");
}

TEST(VisionSettings, FlagBeatsConfigBeatsArguments) {
  const Shapes shapes = VisionShapes(Gates::kNone);
  const Arguments arguments = {
      {"mask_type", p::Text("Softmax")}, {"cls_tok", p::Boolean(true)}, {"input_size", p::Integer(32)}};
  const std::string config = R"({"mask_type": "Lit", "num_heads": 3, "cls_tok": false, "img_size": 48})";
  const LoadedModel plain = Files(shapes, config, arguments).Load();
  EXPECT_EQ(plain.config.variant, Variant::kLionLit);
  EXPECT_EQ(plain.config.pooling, Pooling::kMean);
  EXPECT_EQ(plain.config.image.size, 48);
  EXPECT_EQ(Origin(plain, "mask type"), "config.json mask_type");
  const LoadedModel flagged = Files(shapes, config, arguments).Load({.variant = Variant::kSoftmax, .heads = 4});
  EXPECT_EQ(flagged.config.variant, Variant::kSoftmax);
  EXPECT_EQ(flagged.config.heads, 4);
  EXPECT_EQ(flagged.config.pooling, Pooling::kMean);
}

TEST(VisionSettings, NamedSizeGivesHeadsOnlyWithItsOwnWidth) {
  const Arguments arguments = {
      {"model", p::Text("lion_tiny_patch16_224")}, {"mask_type", p::Text("Lit")}, {"cls_tok", p::Boolean(true)}};
  // Width 12 is not tiny's 192.
  EXPECT_THAT(Files(VisionShapes(Gates::kNone), "", arguments).Error(), HasSubstr("give --heads"));
}

TEST(VisionSettings, NothingContradictsATensor) {
  const Shapes decay = VisionShapes(Gates::kDecay);
  const auto config_error = [&decay](const std::string& config) {
    return Files(decay, config).Error({.pooling = Pooling::kMean});
  };
  EXPECT_THAT(config_error(R"({"mask_type": "Selective"})"),
              HasSubstr("mask type: config.json mask_type says LION-S, but tensor blocks.0.attn.a_i says LION-D"));
  EXPECT_THAT(config_error(R"({"order": "S"})"), HasSubstr("config.json order says s, but the absence of"));
  EXPECT_THAT(config_error(R"({"num_heads": 4})"),
              HasSubstr("config.json num_heads says 4, but tensor blocks.0.attn.a_i says 3"));
  EXPECT_THAT(config_error(R"({"depth": 3})"), HasSubstr("config.json depth says 3, but the tensors blocks.N says 2"));
  EXPECT_THAT(config_error(R"({"embed_dim": 24})"), HasSubstr("config.json embed_dim says 24"));
  EXPECT_THAT(config_error(R"({"patch_size": 8})"), HasSubstr("config.json patch_size says 8"));
  EXPECT_THAT(config_error(R"({"num_classes": 6})"),
              HasSubstr("config.json num_classes says 6, but tensor head.weight says 5"));
  EXPECT_THAT(config_error(R"({"pos_emb": true})"), HasSubstr("config.json pos_emb says true, but the absence of"));
  EXPECT_THAT(Files(decay, "").Error({.variant = Variant::kLionLit, .pooling = Pooling::kMean}),
              HasSubstr("--mask-type says LION-LIT, but tensor"));
  EXPECT_THAT(Files(decay, "").Error({.heads = 4, .pooling = Pooling::kMean}), HasSubstr("--heads says 4, but tensor"));
  EXPECT_THAT(Files(VisionShapes(Gates::kNone), R"({"mask_type": "Decay", "num_heads": 3})").Error(),
              HasSubstr("mask type: config.json mask_type says LION-D, but there are no tensors blocks.N.attn.a_i"));
  EXPECT_THAT(Files(VisionShapes(Gates::kDecay, false, true), "", {{"pos_emb", p::Boolean(false)}}).Error(),
              HasSubstr("checkpoint args pos_emb says false, but tensor pos_embed says true"));
}

TEST(VisionSettings, ValuesOfEqualRankMustAgree) {
  const Shapes shapes = VisionShapes(Gates::kDecay);
  EXPECT_THAT(Files(shapes, R"({"pooling": "mean", "cls_tok": true})").Error(),
              HasSubstr("pooling: config.json pooling says mean, but config.json cls_tok says cls"));
  EXPECT_EQ(Files(shapes, R"({"pooling": "cls", "cls_tok": true})").Load().config.pooling, Pooling::kCls);
  EXPECT_THAT(Files(VisionShapes(Gates::kNone),
                    R"({"mask_type": "Lit", "arch_type": "attention", "num_heads": 3, "cls_tok": true})")
                  .Error(),
              HasSubstr("config.json mask_type says LION-LIT, but config.json arch_type says softmax"));
}

TEST(VisionSettings, HeadsMustDivideTheWidth) {
  EXPECT_THAT(Files(VisionShapes(Gates::kNone), R"({"mask_type": "Lit", "num_heads": 5, "cls_tok": true})").Error(),
              HasSubstr("heads: 5 do not divide the width 12"));
  EXPECT_THAT(Files(VisionShapes(Gates::kNone), R"({"mask_type": "Lit", "num_heads": 0, "cls_tok": true})").Error(),
              HasSubstr("heads: 0 do not divide the width 12"));
}

TEST(VisionSettings, ReadsTheImageSettings) {
  const LoadedModel model =
      Files(VisionShapes(Gates::kDecay),
            R"({"cls_tok": true, "img_size": 28, "image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6],
                "resize": "long_side", "crop_ratio": 1, "normalize": true})")
          .Load();
  EXPECT_EQ(model.config.image.size, 28);
  EXPECT_THAT(model.config.image.mean, ElementsAre(0.1f, 0.2f, 0.3f));
  EXPECT_THAT(model.config.image.std, ElementsAre(0.4f, 0.5f, 0.6f));
  EXPECT_EQ(model.config.image.resize, Resize::kLongSide);
  EXPECT_EQ(model.config.image.crop_ratio, 1.0);
  EXPECT_TRUE(model.config.normalize);
}

TEST(VisionSettings, ImageSizeFallsBackToTheArgumentsThePositionGridAndTheDefault) {
  EXPECT_EQ(Files(VisionShapes(Gates::kDecay), "", {{"cls_tok", p::Boolean(true)}, {"input_size", p::Integer(32)}})
                .Load()
                .config.image.size,
            32);
  EXPECT_EQ(Files(VisionShapes(Gates::kDecay, false, true), R"({"cls_tok": true})").Load().config.image.size, 12);
  EXPECT_EQ(Files(VisionShapes(Gates::kDecay), R"({"cls_tok": true})").Load().config.image.size, 224);
}

TEST(VisionSettings, RefusesImpossibleImageSettings) {
  const Shapes shapes = VisionShapes(Gates::kDecay);
  const auto error = [&shapes](const std::string& config) {
    return Files(shapes, config).Error({.pooling = Pooling::kCls});
  };
  EXPECT_THAT(error(R"({"img_size": 3})"), HasSubstr("3 is not between the patch size 4 and"));
  EXPECT_THAT(error(R"({"crop_ratio": 0})"), HasSubstr("crop_ratio is 0, expected (0, 1]"));
  EXPECT_THAT(error(R"({"image_std": [1, 0, 1]})"), HasSubstr("image_std is not an array of three positive numbers"));
  EXPECT_THAT(error(R"({"image_mean": [1, 2]})"), HasSubstr("image_mean is not an array of three numbers"));
  EXPECT_THAT(error(R"({"resize": "squash"})"), HasSubstr("resize is \"squash\", expected one of center_crop"));
}

TEST(VisionSettings, ChecksTypesAndSpellings) {
  const Shapes shapes = VisionShapes(Gates::kNone);
  const std::string error = Files(shapes, R"({"mask_type": "Litt", "num_heads": "three", "cls_tok": 2})").Error();
  EXPECT_THAT(error, HasSubstr("config.json mask_type is \"Litt\", expected one of Lit, Decay"));
  EXPECT_THAT(error, HasSubstr("config.json num_heads is \"three\", expected an integer"));
  EXPECT_THAT(error, HasSubstr("config.json cls_tok is 2, expected true or false"));
}

TEST(VisionSettings, WarnsOfUnknownKeys) {
  const LoadedModel model =
      Files(VisionShapes(Gates::kDecay), R"({"cls_tok": true, "colour": 1, "num_head": 3})").Load();
  EXPECT_THAT(model.warnings, Contains(HasSubstr("config.json: unknown keys are ignored: colour, num_head")));
}

TEST(VisionSettings, ANullIsAsGoodAsAnAbsentKey) {
  const LoadedModel model =
      Files(VisionShapes(Gates::kDecay), R"({"cls_tok": true, "num_heads": null, "img_size": null, "imgsize": null})")
          .Load();
  EXPECT_EQ(model.config.image.size, 224);
  EXPECT_THAT(model.warnings, Contains(HasSubstr("unknown keys are ignored: imgsize")));
}

TEST(VisionSettings, LabelsMustFitTheHead) {
  const Shapes shapes = VisionShapes(Gates::kDecay);
  const std::string five = R"({"cls_tok": true, "id2label": {"0":"a","1":"b","2":"c","3":"d","4":"e"}})";
  EXPECT_THAT(Files(shapes, five).Load().config.labels, ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_THAT(Files(shapes, R"({"cls_tok": true, "id2label": {"0":"a","1":"b"}})").Error(),
              HasSubstr("config.json id2label names 2, but the head has 5 outputs"));
  EXPECT_THAT(Files(shapes, R"({"cls_tok": true, "id2label": {"0":"a","2":"b"}})").Error(),
              HasSubstr("does not map \"0\" to \"1\""));
  const Files from_file(shapes, R"({"cls_tok": true})");
  from_file.folder().Write("labels.txt", "v\nw\r\nx\ny\nz\n");
  EXPECT_THAT(from_file.Load().config.labels, ElementsAre("v", "w", "x", "y", "z"));
  const Files both(shapes, five);
  both.folder().Write("labels.txt", "v\nw\nx\ny\nz\n");
  EXPECT_THAT(both.Error(), HasSubstr("id2label and labels.txt differ"));
}

// Labels go into replies, where protobuf allows nothing but UTF-8.
TEST(VisionSettings, LabelsMustBeUtf8) {
  const Shapes shapes = VisionShapes(Gates::kDecay);
  const Files latin1(shapes, R"({"cls_tok": true})");
  latin1.folder().Write("labels.txt", "v\nw\nx \xe2\x82\xac\nna\xefve\nz\n");
  EXPECT_THAT(latin1.Error(), HasSubstr("labels.txt: line 4 is not UTF-8: byte 0xef begins no character"));
  latin1.folder().Write("labels.txt", "v\nw\nx \xe2\x82\xac\nna\xc3\xafve\nz\n");
  EXPECT_THAT(latin1.Load().config.labels, ElementsAre("v", "w", "x \xe2\x82\xac", "na\xc3\xafve", "z"));
  EXPECT_THAT(Files(shapes, "{\"cls_tok\": true,\n\"id2label\": {\"0\":\"\xef\"}}").Error(),
              AllOf(HasSubstr("config.json: JSON: at byte"), HasSubstr("line 2"), HasSubstr("ill-formed UTF-8")));
}

TEST(VisionSettings, BrokenSidecarIsAnErrorNamingIt) {
  EXPECT_THAT(Files(VisionShapes(Gates::kDecay), "{").Error(), HasSubstr("config.json: JSON: at byte"));
  EXPECT_THAT(Files(VisionShapes(Gates::kDecay), "[1]").Error(),
              HasSubstr("config.json: holds JSON of type array, expected an object"));
  EXPECT_THAT(Files(VisionShapes(Gates::kDecay), "null").Error({.pooling = Pooling::kMean}),
              HasSubstr("config.json: holds JSON of type null, expected an object"));
}

TEST(ParseVariant, KnowsEverySpelling) {
  for (const char* name : {"Lit", "lit", "lion-lit", "linear_attention", "LION-LIT"})
    EXPECT_EQ(ParseVariant(name), Variant::kLionLit);
  for (const char* name : {"Decay", "decay", "DECAY", "lion-d", "LION-RETNET", "nova", "d", "D"})
    EXPECT_EQ(ParseVariant(name), Variant::kLionD);
  for (const char* name : {"Selective", "selective", "lion-s", "Nova-InputDep", "s", "S"})
    EXPECT_EQ(ParseVariant(name), Variant::kLionS);
  for (const char* name : {"Softmax", "softmax", "SOFTMAX", "attention"})
    EXPECT_EQ(ParseVariant(name), Variant::kSoftmax);
  EXPECT_EQ(ParseVariant(""), std::nullopt);
  EXPECT_EQ(ParseVariant("litt"), std::nullopt);
}

}  // namespace
}  // namespace lion
