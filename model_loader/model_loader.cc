#include "model_loader/model_loader.h"

#include "model_loader/architecture.h"
#include "model_loader/checkpoint.h"
#include "model_loader/load_steps.h"

namespace lion {

absl::Status LoadInto(const std::string& path, const LoadOptions& options, Checkpoint& checkpoint, LoadedModel& model) {
  if (options.copy_files) checkpoint.access = FileAccess::kCopied;
  absl::Status read = ReadCheckpoint(path, options.weights, checkpoint);
  model.format = checkpoint.format;
  model.file = checkpoint.file;
  model.weights = checkpoint.weights;
  model.stripped_prefix = checkpoint.stripped_prefix;
  model.warnings = checkpoint.warnings;
  for (const MappedFile& file : checkpoint.files) model.file_bytes += static_cast<int64_t>(file.bytes().size());
  if (!read.ok()) return read;
  const auto modality = DetectModality(checkpoint);
  absl::Status status = modality.status();
  if (status.ok()) {
    model.config.modality = *modality;
    status = *modality == Modality::kVision ? ReadVisionModel(checkpoint, options, model)
                                            : ReadTextModel(checkpoint, options, model);
  }
  if (status.ok()) return status;
  return absl::Status(status.code(), checkpoint.file + ": " + std::string(status.message()));
}

absl::StatusOr<LoadedModel> LoadModel(const std::string& path, const LoadOptions& options) {
  auto checkpoint = std::make_shared<Checkpoint>();
  LoadedModel model;
  const absl::Status status = LoadInto(path, options, *checkpoint, model);
  if (!status.ok()) return status;
  model.storage = std::move(checkpoint);
  return model;
}

}  // namespace lion
