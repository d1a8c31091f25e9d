#include <gmock/gmock.h>

#include "model_loader/model_loader.h"
#include "tests/model_loader/test_files.h"
#include "tests/support/golden.h"

namespace lion {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using testing::Gates;
using ::testing::HasSubstr;

TEST(InspectModel, ReportsFormatArchitectureOriginsTensorsAndMemory) {
  const InspectReport report = InspectModel(testing::SourcePath("tests/golden/vision/plain_state_dict_headless"), {});
  EXPECT_TRUE(report.ok);
  EXPECT_THAT(report.text,
              AllOf(ContainsRegex("format +torch zip, plain state_dict"), ContainsRegex("prefix +module\\."),
                    ContainsRegex("mask type +LION-D +from tensor blocks.0.attn.a_i"),
                    ContainsRegex("pooling +mean +from config.json cls_tok"),
                    ContainsRegex("bfloat16 +1 tensors, 48 elements"), ContainsRegex("float64 +1 tensors"),
                    ContainsRegex("parameters +97,368"), ContainsRegex("in float32 +0\\.4 MiB"),
                    HasSubstr("config.json num_classes is 10, but there is no tensor head.weight"),
                    HasSubstr("no tensor is missing")));
}

TEST(InspectModel, ReportsARefusedCheckpointAsFarAsItCouldBeRead) {
  const testing::TempFolder folder;
  testing::Shapes shapes = testing::VisionShapes(Gates::kDecay);
  shapes.erase("norm.bias");
  shapes["stray"] = {2};
  const std::string file = folder.Write("m.safetensors", testing::Safetensors(shapes));
  const InspectReport report = InspectModel(file, {.pooling = Pooling::kMean});
  EXPECT_FALSE(report.ok);
  EXPECT_THAT(report.text, AllOf(ContainsRegex("format +safetensors"), ContainsRegex("mask type +LION-D"),
                                 HasSubstr("1 missing: norm.bias [12]"), HasSubstr("1 unexpected: stray [2]")));
  EXPECT_GT(report.text.find("error"), report.text.find("architecture"));
}

TEST(InspectModel, ReportsAFileThatCannotBeRead) {
  const InspectReport report = InspectModel("/none", {});
  EXPECT_FALSE(report.ok);
  EXPECT_THAT(report.text, HasSubstr("/none: cannot open"));
}

}  // namespace
}  // namespace lion
