#include "engine/vision_engine.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/patch_order.h"
#include "engine/resources.h"

namespace lion {
namespace {

FeatureMap VisionFeatureMap(Variant variant) {
  return variant == Variant::kLionLit ? FeatureMap::kEluPlusOne : FeatureMap::kNormalizedSilu;
}

int64_t GateColumns(const ModelConfig& config) {
  return config.variant == Variant::kLionS ? MixerOrders(config) * config.heads : 0;
}

PoolKind ToPoolKind(Pooling pooling) {
  switch (pooling) {
    case Pooling::kCls:
      return PoolKind::kFirst;
    case Pooling::kMax:
      return PoolKind::kMax;
    case Pooling::kLast:
      return PoolKind::kLast;
    default:
      return PoolKind::kMean;
  }
}

bool AllFinite(std::span<const float> values) {
  for (float value : values) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

int64_t Rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

VisionEngine::VisionEngine(ModelConfig config, const EnginePlan& plan, PackedVision weights)
    : config_(std::move(config)),
      plan_(plan),
      weights_(std::move(weights)),
      orders_(MixerOrders(config_)),
      gates_(GateColumns(config_)),
      arena_(nullptr, std::free) {}

absl::StatusOr<std::unique_ptr<Engine>> VisionEngine::Create(const LoadedModel& model, const EnginePlan& plan) {
  const ModelConfig& config = model.config;
  const DataType type = plan.compute_type == ComputeType::kBFloat16 ? DataType::kBFloat16 : DataType::kFloat32;
  absl::Status status = plan.operations->supports(
      {.head_width = config.head_width(), .patch_size = config.patch_size, .compute_type = type});
  if (!status.ok()) return absl::InvalidArgumentError(status.message());
  absl::StatusOr<PackedVision> weights = PackVision(model, *plan.operations, type);
  if (!weights.ok()) {
    if (absl::IsUnimplemented(weights.status()) && type == DataType::kBFloat16) {
      return absl::InvalidArgumentError(
          absl::StrCat("this machine cannot compute in bfloat16 with the instruction set ", plan.operations->name,
                       ": use --compute-type float32 (", weights.status().message(), ")"));
    }
    return weights.status();
  }
  std::unique_ptr<VisionEngine> engine(new VisionEngine(config, plan, *std::move(weights)));
  if (status = engine->AllocateArena(); !status.ok()) return status;
  return engine;
}

int64_t VisionEngine::ArenaBytesPerToken(const ModelConfig& config, ComputeType type) {
  const int64_t element = type == ComputeType::kBFloat16 ? 2 : 4;
  const int64_t places = MixerOrders(config) == 2 ? 2 * static_cast<int64_t>(sizeof(int32_t)) : 0;
  return config.width * (4 + 3 * element + element) + GateColumns(config) * 4 + places;
}

absl::Status VisionEngine::AllocateArena() {
  const int64_t tokens = plan_.max_batch_tokens, width = config_.width;
  const int64_t element = DataTypeSize(activation_type());
  const int64_t sizes[] = {Rounded(tokens * width * 4), Rounded(tokens * 3 * width * element),
                           Rounded(tokens * width * element), Rounded(tokens * gates_ * 4),
                           orders_ == 2 ? Rounded(tokens * 4) : 0};
  const int64_t bytes = sizes[0] + sizes[1] + sizes[2] + sizes[3] + 2 * sizes[4];
  const int64_t limit = MemoryLimitBytes();
  std::byte* memory =
      bytes > limit ? nullptr : static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>(bytes)));
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for a batch of ", tokens, " tokens: it takes ",
                                                     bytes >> 20, " MiB, this process may use ", limit >> 20,
                                                     " MiB; lower --max-input-tokens or --max-batch-tokens"));
  }
  // Touched now, so that a lack of memory shows at start and not under load.
  std::memset(memory, 0, static_cast<size_t>(bytes));
  arena_.reset(memory);
  x_ = reinterpret_cast<float*>(memory);
  qkv_ = memory += sizes[0];
  mixed_ = memory += sizes[1];
  gate_ = reinterpret_cast<float*>(memory += sizes[2]);
  places_[0] = reinterpret_cast<int32_t*>(memory += sizes[3]);
  places_[1] = reinterpret_cast<int32_t*>(memory + sizes[4]);
  absl::StatusOr<std::unique_ptr<KernelContext>> context = plan_.operations->make_context(
      {.threads = plan_.threads,
       .max_tokens = tokens,
       .heads = config_.heads,
       .head_width = config_.head_width(),
       .type = activation_type(),
       .mixer = plan_.mixer,
       .decay_orders = config_.variant == Variant::kLionD || config_.variant == Variant::kLionS ? orders_ : 0});
  if (!context.ok()) return context.status();
  context_ = *std::move(context);
  bytes_per_token_ = ArenaBytesPerToken(config_, plan_.compute_type) + context_->scratch_bytes() / tokens;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> VisionEngine::CountTokens(int64_t height, int64_t width) const {
  const int64_t size = config_.patch_size;
  if (height < size || width < size) {
    return absl::InvalidArgumentError(
        absl::StrCat("the image is ", width, "x", height, " pixels, smaller than one patch of ", size, "x", size));
  }
  return 1 + (height / size) * (width / size);
}

absl::Status VisionEngine::CheckText(const TextInput&) const {
  return absl::InvalidArgumentError("the model takes images, not text");
}

void VisionEngine::PlaceSequences(std::span<const Request> requests) {
  images_.clear();
  offsets_.assign(1, 0);
  for (const Request& request : requests) {
    const ImageInput& image = request.image;
    const int64_t rows = image.height / config_.patch_size, columns = image.width / config_.patch_size;
    const int64_t begin = offsets_.back(), tokens = 1 + rows * columns;
    images_.push_back({image.pixels, image.layout, image.height, image.width, rows, columns});
    offsets_.push_back(begin + tokens);
    if (orders_ == 2 && offsets_.back() <= plan_.max_batch_tokens) {
      RowSerpentine(rows, columns, {places_[0] + begin, static_cast<size_t>(tokens)});
      ColumnSerpentine(rows, columns, {places_[1] + begin, static_cast<size_t>(tokens)});
    }
  }
}

absl::Status VisionEngine::RunMixer(const VisionBlock& block) {
  const int64_t tokens = offsets_.back(), head_width = config_.head_width();
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_width));
  const Operations& run = *plan_.operations;
  if (config_.variant == Variant::kSoftmax) {
    return run.softmax_attention(*context_, {.offsets = offsets_,
                                             .heads = config_.heads,
                                             .head_width = head_width,
                                             .qkv = qkv_,
                                             .type = activation_type(),
                                             .scale = scale,
                                             .output = mixed_});
  }
  MixerArgs args{.offsets = offsets_,
                 .heads = config_.heads,
                 .head_width = head_width,
                 .qkv = qkv_,
                 .type = activation_type(),
                 .feature_map = VisionFeatureMap(config_.variant),
                 .orders = {},
                 .order_count = orders_,
                 .normalize = true,
                 .scale = scale,
                 .epsilon = 1e-6f,
                 .form = plan_.mixer,
                 .output = mixed_};
  for (int order = 0; order < orders_; ++order) {
    MixerOrder& scan = args.orders[order];
    if (orders_ == 2) scan.permutation = places_[order];
    if (config_.variant == Variant::kLionD) scan.log_decay = block.log_decay[order].data();
    if (config_.variant == Variant::kLionS) {
      scan.log_decay = gate_ + order * config_.heads;
      scan.token_stride = gates_;
    }
  }
  if (config_.variant == Variant::kLionS) {
    // Class tokens do not decay: they are the first of each sequence.
    absl::Status status = run.log_decay(
        *context_,
        {.kind = DecayKind::kSelectiveVision, .values = gate_, .rows = tokens, .columns = gates_, .offsets = offsets_});
    if (!status.ok()) return status;
  }
  return run.mixer(*context_, args);
}

absl::Status VisionEngine::RunBlock(const VisionBlock& block) {
  const int64_t tokens = offsets_.back();
  const Operations& run = *plan_.operations;
  absl::Status status = run.linear(*context_, {.input = x_,
                                               .input_type = DataType::kFloat32,
                                               .rows = tokens,
                                               .pre_norm = block.norm1.parameters(),
                                               .linear = block.qkv.get(),
                                               .output = qkv_,
                                               .output_type = activation_type(),
                                               .tail = gate_,
                                               .tail_columns = gates_});
  if (!status.ok()) return status;
  if (status = RunMixer(block); !status.ok()) return status;
  status = run.linear(*context_, {.input = mixed_,
                                  .input_type = activation_type(),
                                  .rows = tokens,
                                  .linear = block.proj.get(),
                                  .residual = x_,
                                  .output = x_,
                                  .output_type = DataType::kFloat32});
  if (!status.ok()) return status;
  return run.mlp(
      *context_,
      {.x = x_, .rows = tokens, .pre_norm = block.norm2.parameters(), .fc1 = block.fc1.get(), .fc2 = block.fc2.get()});
}

absl::Status VisionEngine::ReadPooled(std::span<const Request> requests, std::span<Result> results) {
  const int64_t width = config_.width;
  const auto wants = [&](const Request& request, Pooling pooling) {
    return (request.embedding && request.pooling == pooling) || (request.logits && config_.pooling == pooling);
  };
  for (const Pooling pooling : {Pooling::kMean, Pooling::kCls, Pooling::kMax, Pooling::kLast}) {
    bool wanted = false, logits_wanted = false;
    for (const Request& request : requests) {
      wanted = wanted || wants(request, pooling);
      logits_wanted = logits_wanted || (request.logits && config_.pooling == pooling);
    }
    if (!wanted) continue;
    pooled_.resize(requests.size() * width);
    absl::Status status = plan_.operations->pool(*context_, {.x = x_,
                                                             .offsets = offsets_,
                                                             .width = width,
                                                             .norm = weights_.norm.parameters(),
                                                             .kind = ToPoolKind(pooling),
                                                             .output = pooled_.data()});
    if (!status.ok()) return status;
    if (logits_wanted) {
      logits_.resize(requests.size() * config_.classes);
      status = plan_.operations->linear(*context_, {.input = pooled_.data(),
                                                    .input_type = DataType::kFloat32,
                                                    .rows = static_cast<int64_t>(requests.size()),
                                                    .linear = weights_.head.get(),
                                                    .output = logits_.data(),
                                                    .output_type = DataType::kFloat32});
      if (!status.ok()) return status;
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].embedding && requests[i].pooling == pooling) {
        results[i].embedding.assign(pooled_.begin() + i * width, pooled_.begin() + (i + 1) * width);
        results[i].rows = 1;
      }
      if (requests[i].logits && config_.pooling == pooling) {
        results[i].logits.assign(logits_.begin() + i * config_.classes, logits_.begin() + (i + 1) * config_.classes);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status VisionEngine::ReadRows(const Request& request, size_t index, Result& result) {
  if (!request.embedding || request.pooling != Pooling::kNone) return absl::OkStatus();
  result.rows = offsets_[index + 1] - offsets_[index];
  result.embedding.resize(result.rows * config_.width);
  return plan_.operations->layer_norm(*context_, {.input = x_ + offsets_[index] * config_.width,
                                                  .rows = result.rows,
                                                  .columns = config_.width,
                                                  .norm = weights_.norm.parameters(),
                                                  .output = result.embedding.data()});
}

absl::Status VisionEngine::Forward(std::span<const Request> requests, std::span<Result> results) {
  if (requests.empty()) return absl::OkStatus();
  PlaceSequences(requests);
  const int64_t tokens = offsets_.back();
  if (tokens > plan_.max_batch_tokens) {
    return absl::InternalError(
        absl::StrCat("a batch of ", tokens, " tokens is over the engine's ", plan_.max_batch_tokens));
  }
  absl::Status status = plan_.operations->patch_embed(
      *context_, {.images = images_,
                  .offsets = offsets_,
                  .patch_size = config_.patch_size,
                  .mean = config_.image.mean,
                  .std = config_.image.std,
                  .projection = weights_.patch.get(),
                  .cls_token = weights_.cls_token.data(),
                  .positions = weights_.positions.empty() ? nullptr : weights_.positions.data(),
                  .grid = config_.position_grid,
                  .tokens = x_});
  if (!status.ok()) return status;
  for (const VisionBlock& block : weights_.blocks) {
    if (status = RunBlock(block); !status.ok()) return status;
  }
  for (Result& result : results) result = Result();
  if (status = ReadPooled(requests, results); !status.ok()) return status;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (status = ReadRows(requests[i], i, results[i]); !status.ok()) return status;
    if (!AllFinite(results[i].embedding) || !AllFinite(results[i].logits)) {
      results[i] = Result();
      results[i].status = absl::InternalError("the model's output for this input is not finite");
    }
  }
  return absl::OkStatus();
}

}  // namespace lion
