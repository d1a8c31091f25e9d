// A checkpoint of torch.save: a whole archive where the input begins like one, else the pickle in an archive of three
// storages, so that mutations reach the tensors and not only the zip reader.
#include "model_loader/torch_file.h"

#include "tests/fuzz/check.h"
#include "tests/fuzz/model.h"
#include "tests/model_loader/test_files.h"

namespace lion {
namespace {

std::string ArchiveAround(std::string_view pickle) {
  std::string counting(256, '\0');
  for (size_t i = 0; i < counting.size(); ++i) counting[i] = static_cast<char>(i);
  const auto entry = [](const char* name, std::string data) {
    return testing::ZipEntry{.name = name, .data = std::move(data), .crc32 = 0};
  };
  return testing::Zip({entry("archive/data.pkl", std::string(pickle)), entry("archive/byteorder", "little"),
                       entry("archive/data/0", counting), entry("archive/data/1", counting.substr(0, 36)),
                       entry("archive/data/2", "")});
}

void Read(Bytes bytes, WeightChoice choice) {
  auto file = ReadTorchFile(bytes, choice);
  fuzz::CheckRefusal(file.status(), absl::StatusCode::kInvalidArgument, "reading a torch file");
  if (!file.ok()) return;
  Checkpoint checkpoint;
  checkpoint.tensors = std::move(file->tensors);
  checkpoint.arguments = std::move(file->arguments);
  fuzz::ReadAllElements(checkpoint.tensors, static_cast<int64_t>(bytes.size()));
  StripPrefixes(checkpoint.tensors);
  fuzz::ReadModel(checkpoint, {.allow_unused = true, .pooling = Pooling::kMean});
}

}  // namespace
}  // namespace lion

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lion;
  Bytes bytes(data, size);
  std::vector<uint8_t> wrapped;
  if (!IsZip(bytes)) {
    const std::string archive = ArchiveAround(fuzz::AsText(data, size));
    wrapped.assign(archive.begin(), archive.end());  // no byte more is readable, unlike a string
    bytes = wrapped;
  }
  for (const WeightChoice choice : {WeightChoice::kModel, WeightChoice::kEma}) Read(bytes, choice);
  return 0;
}
