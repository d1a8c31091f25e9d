// A model's folder: the files beside the weights through LoadModel and InspectModel, as a user's path goes in.
#include <array>
#include <filesystem>
#include <fstream>

#include "model_loader/model_loader.h"
#include "model_loader/utf8.h"
#include "tests/fuzz/check.h"
#include "tests/model_loader/test_files.h"

namespace lion {
namespace {

using testing::Gates;

// In the order of an input's parts.
constexpr std::array<const char*, 8> kFiles = {"config.json",
                                               "labels.txt",
                                               "vocab.txt",
                                               "tokenizer.json",
                                               "modules.json",
                                               "1_Pooling/config.json",
                                               "sentence_bert_config.json",
                                               "model.safetensors.index.json"};

// A folder with weights, whose other files are written anew for each input.
class ModelFolder {
 public:
  explicit ModelFolder(const testing::Shapes& shapes) {
    folder_.Write("weights.safetensors", testing::Safetensors(shapes));
    std::filesystem::create_directory(folder_.path() + "/1_Pooling");
  }

  // Files that are as they were are left alone. An empty part: no file.
  void Set(size_t file, std::string_view content) {
    if (content_[file] == content) return;
    content_[file] = content;
    const std::string path = folder_.path() + "/" + kFiles[file];
    std::filesystem::remove(path);
    if (content.empty()) return;
    std::ofstream stream(path, std::ios::binary);
    stream << content;
    stream.close();
    fuzz::Check(stream.good(), "the temporary folder can be written");
  }

  const std::string& path() const { return folder_.path(); }

 private:
  testing::TempFolder folder_;
  std::array<std::string, kFiles.size()> content_;
};

ModelFolder& FolderOf(uint8_t model) {
  // Removed when the process ends as it should.
  static ModelFolder vision(testing::VisionShapes(Gates::kSelective));
  static ModelFolder text(testing::TextShapes(Gates::kDecay));
  return model % 2 == 0 ? vision : text;
}

}  // namespace
}  // namespace lion

// The model's number, then the files' contents, separated by the byte 0x1e.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lion;
  if (size < 1) return 0;
  ModelFolder& folder = FolderOf(data[0]);
  std::string_view rest = fuzz::AsText(data + 1, size - 1);
  for (size_t file = 0; file < kFiles.size(); ++file) {
    const size_t end = std::min(rest.find('\x1e'), rest.size());
    folder.Set(file, rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const LoadOptions options = {.allow_unused = true};
  const absl::StatusOr<LoadedModel> model = LoadModel(folder.path(), options);
  const InspectReport report = InspectModel(folder.path(), options);
  fuzz::Check(report.ok == model.ok() && !report.text.empty(), "lion inspect sees what loading sees");
  if (!model.ok()) {
    // A shard that the index names need not be there.
    fuzz::Check(absl::IsInvalidArgument(model.status()) || absl::IsNotFound(model.status()), "loading's refusal");
    return 0;
  }
  for (const std::string& label : model->config.labels) {
    fuzz::Check(Utf8Prefix(label) == label.size(), "a label is UTF-8");
  }
  fuzz::Check(model->config.heads > 0 && model->config.width % model->config.heads == 0, "heads divide the width");
  return 0;
}
