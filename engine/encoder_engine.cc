#include "engine/encoder_engine.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/resources.h"

namespace lion {
namespace {

bool HasDecay(const ModelConfig& config) {
  return config.variant == Variant::kLionD || config.variant == Variant::kLionS;
}

int64_t GateColumns(const ModelConfig& config) {
  return config.variant == Variant::kLionS ? MixerOrders(config) * config.heads : 0;
}

FeatureMap FeatureMapOf(const ModelConfig& config) {
  if (config.modality == Modality::kText) return FeatureMap::kIdentity;
  return config.variant == Variant::kLionLit ? FeatureMap::kEluPlusOne : FeatureMap::kNormalizedSilu;
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

bool AllFinite(const Result& result) {
  const auto finite = [](float value) { return std::isfinite(value); };
  return std::all_of(result.embedding.begin(), result.embedding.end(), finite) &&
         std::all_of(result.logits.begin(), result.logits.end(), finite) &&
         std::all_of(result.predictions.begin(), result.predictions.end(), [](const TokenScore& score) {
           return std::isfinite(score.logit) && std::isfinite(score.probability);
         });
}

int64_t Rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

EncoderEngine::EncoderEngine(ModelConfig config, const EnginePlan& plan)
    : config_(std::move(config)),
      plan_(plan),
      orders_(MixerOrders(config_)),
      gates_(GateColumns(config_)),
      arena_(nullptr, std::free) {}

absl::Status EncoderEngine::CheckKernels(const ModelConfig& config, const EnginePlan& plan) {
  const absl::Status status =
      plan.operations->supports({.head_width = config.head_width(),
                                 .patch_size = config.modality == Modality::kVision ? config.patch_size : 0,
                                 .compute_type = plan.data_type()});
  return status.ok() ? status : absl::InvalidArgumentError(status.message());
}

absl::Status EncoderEngine::PackingError(const absl::Status& status, const EnginePlan& plan) {
  if (!absl::IsUnimplemented(status) || plan.compute_type != ComputeType::kBFloat16) return status;
  return absl::InvalidArgumentError(absl::StrCat("this machine cannot compute in bfloat16 with the instruction set ",
                                                 plan.operations->name, ": use --compute-type float32 (",
                                                 status.message(), ")"));
}

int64_t EncoderEngine::ArenaBytesPerToken(const ModelConfig& config, ComputeType type) {
  const int64_t element = type == ComputeType::kBFloat16 ? 2 : 4;
  const int64_t places = MixerOrders(config) == 2 ? 2 * static_cast<int64_t>(sizeof(int32_t)) : 0;
  return config.width * (4 + 3 * element + element) + GateColumns(config) * 4 + places;
}

absl::Status EncoderEngine::AllocateArena() {
  const int64_t tokens = plan_.max_batch_tokens, width = config_.width;
  const int64_t element = DataTypeSize(plan_.data_type());
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
  // Softmax attention has no scratch that grows with length.
  const bool softmax = config_.variant == Variant::kSoftmax;
  absl::StatusOr<std::unique_ptr<KernelContext>> context =
      run().make_context({.threads = plan_.threads,
                          .max_tokens = softmax ? 0 : tokens,
                          .heads = config_.heads,
                          .head_width = config_.head_width(),
                          .type = plan_.data_type(),
                          .mixer = plan_.mixer,
                          .decay_orders = HasDecay(config_) ? orders_ : 0});
  if (!context.ok()) return context.status();
  context_ = *std::move(context);
  bytes_per_token_ = ArenaBytesPerToken(config_, plan_.compute_type) + context_->scratch_bytes() / tokens;
  return absl::OkStatus();
}

absl::Status EncoderEngine::RunMixer(const EncoderLayer& layer) {
  const bool vision = config_.modality == Modality::kVision;
  const int64_t tokens = offsets_.back(), head_width = config_.head_width();
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_width));
  if (config_.variant == Variant::kSoftmax) {
    return run().softmax_attention(*context_, {.offsets = offsets_,
                                               .heads = config_.heads,
                                               .head_width = head_width,
                                               .qkv = qkv_,
                                               .type = plan_.data_type(),
                                               .scale = scale,
                                               .output = mixed_});
  }
  MixerArgs args{.offsets = offsets_,
                 .heads = config_.heads,
                 .head_width = head_width,
                 .qkv = qkv_,
                 .type = plan_.data_type(),
                 .feature_map = FeatureMapOf(config_),
                 .orders = {},
                 .order_count = orders_,
                 .normalize = vision,
                 .scale = scale,
                 .form = plan_.mixer,
                 .output = mixed_};
  for (int order = 0; order < orders_; ++order) {
    args.orders[order].permutation = orders_ == 2 ? places_[order] : nullptr;
    if (config_.variant == Variant::kLionD) {
      args.orders[order].log_decay = layer.log_decay[order].data();
    } else if (config_.variant == Variant::kLionS) {
      args.orders[order].log_decay = gate_ + order * config_.heads;
      args.orders[order].token_stride = gates_;
    }
  }
  if (config_.variant == Variant::kLionS) {
    // An image's first token is the class token, which does not decay.
    absl::Status status =
        run().log_decay(*context_, {.kind = vision ? DecayKind::kSelectiveVision : DecayKind::kSelectiveText,
                                    .values = gate_,
                                    .rows = tokens,
                                    .columns = gates_,
                                    .offsets = vision ? offsets() : std::span<const int64_t>()});
    if (!status.ok()) return status;
  }
  return run().mixer(*context_, args);
}

absl::Status EncoderEngine::RunLayer(const EncoderLayer& layer) {
  const int64_t tokens = offsets_.back();
  absl::Status status = run().linear(*context_, {.input = x_,
                                                 .input_type = DataType::kFloat32,
                                                 .rows = tokens,
                                                 .pre_norm = layer.pre_mixer_norm.parameters(),
                                                 .linear = layer.qkv.get(),
                                                 .output = qkv_,
                                                 .output_type = plan_.data_type(),
                                                 .tail = gate_,
                                                 .tail_columns = gates_});
  if (!status.ok()) return status;
  if (status = RunMixer(layer); !status.ok()) return status;
  status = run().linear(*context_, {.input = mixed_,
                                    .input_type = plan_.data_type(),
                                    .rows = tokens,
                                    .pre_norm = layer.mixer_norm.parameters(),
                                    .linear = layer.proj.get(),
                                    .residual = x_,
                                    .post_norm = layer.post_mixer_norm.parameters(),
                                    .output = x_,
                                    .output_type = DataType::kFloat32});
  if (!status.ok()) return status;
  return run().mlp(*context_, {.x = x_,
                               .rows = tokens,
                               .pre_norm = layer.pre_mlp_norm.parameters(),
                               .fc1 = layer.fc1.get(),
                               .fc2 = layer.fc2.get(),
                               .post_norm = layer.post_mlp_norm.parameters()});
}

absl::Status EncoderEngine::ReadRows(const NormParameters& norm, size_t index, Result& result) {
  const float* rows = x_ + offsets_[index] * config_.width;
  result.rows = offsets_[index + 1] - offsets_[index];
  if (norm.gamma == nullptr) {
    result.embedding.assign(rows, rows + result.rows * config_.width);
    return absl::OkStatus();
  }
  result.embedding.resize(result.rows * config_.width);
  return run().layer_norm(
      *context_,
      {.input = rows, .rows = result.rows, .columns = config_.width, .norm = norm, .output = result.embedding.data()});
}

absl::Status EncoderEngine::ReadEmbeddings(std::span<const Request> requests, std::span<Result> results,
                                           const NormParameters& norm, std::optional<Pooling> heads_pooling,
                                           const std::function<absl::Status(const float* pooled)>& read_heads) {
  const int64_t width = config_.width;
  const auto wants = [&](size_t i, Pooling pooling) { return requests[i].embedding && requests[i].pooling == pooling; };
  for (const Pooling pooling : {Pooling::kMean, Pooling::kCls, Pooling::kMax, Pooling::kLast}) {
    bool wanted = heads_pooling == pooling;
    for (size_t i = 0; i < requests.size(); ++i) wanted = wanted || wants(i, pooling);
    if (!wanted) continue;
    pooled_.resize(requests.size() * width);
    absl::Status status = run().pool(*context_, {.x = x_,
                                                 .offsets = offsets_,
                                                 .width = width,
                                                 .norm = norm,
                                                 .kind = ToPoolKind(pooling),
                                                 .output = pooled_.data()});
    if (!status.ok()) return status;
    for (size_t i = 0; i < requests.size(); ++i) {
      if (!wants(i, pooling)) continue;
      results[i].embedding.assign(pooled_.begin() + i * width, pooled_.begin() + (i + 1) * width);
      results[i].rows = 1;
    }
    if (heads_pooling != pooling) continue;
    if (status = read_heads(pooled_.data()); !status.ok()) return status;
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!wants(i, Pooling::kNone)) continue;
    if (absl::Status status = ReadRows(norm, i, results[i]); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status EncoderEngine::Forward(std::span<const Request> requests, std::span<Result> results) {
  if (requests.empty()) return absl::OkStatus();
  offsets_.assign(1, 0);
  for (const Request& request : requests) offsets_.push_back(offsets_.back() + TokensOf(request));
  if (offsets_.back() > plan_.max_batch_tokens) {
    return absl::InternalError(
        absl::StrCat("a batch of ", offsets_.back(), " tokens is over the engine's ", plan_.max_batch_tokens));
  }
  absl::Status status = Embed(requests);
  if (!status.ok()) return status;
  for (const EncoderLayer& layer : layers()) {
    if (status = RunLayer(layer); !status.ok()) return status;
  }
  for (Result& result : results) result = Result();
  if (status = ReadOutputs(requests, results); !status.ok()) return status;
  for (Result& result : results) {
    if (!result.status.ok() || AllFinite(result)) continue;
    result = Result();
    result.status = absl::InternalError("the model's output for this input is not finite");
  }
  return absl::OkStatus();
}

}  // namespace lion
