#include "engine/vision_engine.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/patch_order.h"

namespace lion {

VisionEngine::VisionEngine(const ModelConfig& config, const EnginePlan& plan, PackedVision weights)
    : EncoderEngine(config, plan), weights_(std::move(weights)) {}

absl::StatusOr<std::unique_ptr<Engine>> VisionEngine::Create(const LoadedModel& model, const EnginePlan& plan) {
  absl::Status status = CheckKernels(model.config, plan);
  if (!status.ok()) return status;
  absl::StatusOr<PackedVision> weights = PackVision(model, *plan.operations, plan.data_type());
  if (!weights.ok()) return PackingError(weights.status(), plan);
  std::unique_ptr<VisionEngine> engine(new VisionEngine(model.config, plan, *std::move(weights)));
  if (status = engine->AllocateArena(); !status.ok()) return status;
  return engine;
}

absl::StatusOr<int64_t> VisionEngine::CountTokens(int64_t height, int64_t width) const {
  const int64_t size = config().patch_size;
  if (height < size || width < size) {
    return absl::InvalidArgumentError(
        absl::StrCat("the image is ", width, "x", height, " pixels, smaller than one patch of ", size, "x", size));
  }
  return 1 + (height / size) * (width / size);
}

absl::Status VisionEngine::CheckText(const TextInput&) const {
  return absl::InvalidArgumentError("the model takes images, not text");
}

int64_t VisionEngine::TokensOf(const Request& request) const {
  return 1 + (request.image.height / config().patch_size) * (request.image.width / config().patch_size);
}

absl::Status VisionEngine::Embed(std::span<const Request> requests) {
  const int64_t size = config().patch_size;
  const bool two_orders = MixerOrders(config()) == 2;
  images_.clear();
  for (size_t i = 0; i < requests.size(); ++i) {
    const ImageInput& image = requests[i].image;
    const int64_t rows = image.height / size, columns = image.width / size, begin = offsets()[i];
    images_.push_back({image.pixels, image.layout, image.height, image.width, rows, columns});
    if (!two_orders) continue;
    const size_t tokens = static_cast<size_t>(offsets()[i + 1] - begin);
    RowSerpentine(rows, columns, {places(0) + begin, tokens});
    ColumnSerpentine(rows, columns, {places(1) + begin, tokens});
  }
  return run().patch_embed(context(), {.images = images_,
                                       .offsets = offsets(),
                                       .patch_size = size,
                                       .mean = config().image.mean,
                                       .std = config().image.std,
                                       .projection = weights_.patch.get(),
                                       .cls_token = weights_.cls_token.data(),
                                       .positions = weights_.positions.empty() ? nullptr : weights_.positions.data(),
                                       .grid = config().position_grid,
                                       .tokens = x()});
}

absl::Status VisionEngine::ReadLogits(std::span<const Request> requests, std::span<Result> results,
                                      const float* pooled) {
  const int64_t classes = config().classes;
  logits_.resize(requests.size() * classes);
  absl::Status status = run().linear(context(), {.input = pooled,
                                                 .input_type = DataType::kFloat32,
                                                 .rows = static_cast<int64_t>(requests.size()),
                                                 .linear = weights_.head.get(),
                                                 .output = logits_.data(),
                                                 .output_type = DataType::kFloat32});
  if (!status.ok()) return status;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].logits) results[i].logits.assign(&logits_[i * classes], &logits_[i * classes] + classes);
  }
  return absl::OkStatus();
}

absl::Status VisionEngine::ReadOutputs(std::span<const Request> requests, std::span<Result> results) {
  std::optional<Pooling> heads_pooling;
  for (const Request& request : requests) {
    if (request.logits && weights_.head != nullptr) heads_pooling = config().pooling;
  }
  return ReadEmbeddings(requests, results, weights_.norm.parameters(), heads_pooling,
                        [&](const float* pooled) { return ReadLogits(requests, results, pooled); });
}

}  // namespace lion
