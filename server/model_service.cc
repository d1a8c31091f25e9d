#include "server/model_service.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/pushback.h"

namespace lion {
namespace {

// Full batches that one level of priority may overtake.
constexpr int64_t kBatchesPerPriority = 4;
// What a reply's ClassScore takes: the message, its label on the heap, and both on the wire.
constexpr int64_t kClassScoreBytes = 128;
// A reply's floats, in the message and on the wire.
constexpr int64_t kReplyCopies = 2;

// Decodes and resizes; that there is no memory for it just now is not final.
absl::StatusOr<RgbImage> Preprocess(std::string_view encoded, const ImagePreprocessOptions& options,
                                    int64_t patch_size) try {
  absl::StatusOr<RgbImage> image = PreprocessImage(encoded, options, patch_size);
  if (!absl::IsResourceExhausted(image.status())) return image;
  return TryAgainIn(kUnknownPushbackMs, image.status().message());
} catch (const std::bad_alloc&) {
  return TryAgainIn(kUnknownPushbackMs, "no memory to decode the image");
}

// The work of Preprocess: every pixel is decoded, every row resized to the width of the result, and the result written.
int64_t DecodePixels(std::string_view encoded, const DecodeOptions& options, ImageSize result) {
  const absl::StatusOr<ImageSize> source = ReadImageSize(encoded, options);
  if (!source.ok()) return 0;
  return source->width * source->height + source->height * result.width + result.width * result.height;
}

}  // namespace

class ModelService::Task : public BatchTask {
 public:
  Task(ModelService* service, std::shared_ptr<CallInProgress> call, size_t index)
      : service_(service), call_(std::move(call)), index_(index), waits_since_ns_(service->shared_.clock->NowNs()) {}

  void Drop(const absl::Status& why) override {
    service_->dropped_inputs_.fetch_add(1, std::memory_order_relaxed);
    // The call's `done` may be long: not on the engine's thread.
    service_->reply_pool_.Submit(
        [call = call_, index = index_, why] { call->Finish(index, why, Result(), CallTiming()); });
  }

  void Finish(const absl::Status& device, Result result, int64_t compute_ns, int64_t batch_inputs,
              int64_t batch_tokens) {
    timing.compute_ns = compute_ns;
    timing.batch_inputs = batch_inputs;
    timing.batch_tokens = batch_tokens;
    absl::Status status = device.ok() ? result.status : device;
    call_->Finish(index_, std::move(status), std::move(result), timing);
  }

  Request MakeRequest() const {
    const InferenceCall& call = call_->request;
    return {.image = pixels, .embedding = call.embedding, .pooling = call.pooling, .logits = call.logits};
  }

  // The time since the last call, or since the beginning.
  int64_t Lap(int64_t now_ns) { return now_ns - std::exchange(waits_since_ns_, now_ns); }

  CallInProgress& call() { return *call_; }
  const InferenceInput& input() const { return call_->request.inputs[index_]; }

  ImageInput pixels;
  RgbImage image;  // what `pixels` points into, unless that is the caller's
  CallTiming timing;

 private:
  ModelService* const service_;
  const std::shared_ptr<CallInProgress> call_;
  const size_t index_;
  int64_t waits_since_ns_;
};

absl::StatusOr<std::unique_ptr<ModelService>> ModelService::Create(ModelInfo info, std::unique_ptr<Engine> engine,
                                                                   const ModelServiceOptions& options,
                                                                   const SharedResources& shared,
                                                                   std::function<void(const absl::Status&)> on_fault) {
  absl::StatusOr<ModelServiceOptions> settled = SettleOptions(options, engine->max_batch_tokens());
  if (!settled.ok()) return settled.status();
  std::unique_ptr<ModelService> service(
      new ModelService(std::move(info), std::move(engine), *settled, shared, std::move(on_fault)));
  const BatcherOptions batcher_options = {
      .limits = {.max_tokens = settled->max_batch_tokens,
                 .max_inputs = settled->max_batch_inputs,
                 .max_wait_ns = settled->max_wait_us * 1000,
                 .priority_step_tokens = kBatchesPerPriority * settled->max_batch_tokens},
      .max_queue_tokens = settled->max_queue_tokens};
  absl::StatusOr<std::unique_ptr<Batcher>> batcher =
      Batcher::Create(batcher_options, shared.clock, shared.device_turn,
                      [service = service.get()](Batch batch) { service->RunBatch(std::move(batch)); });
  if (!batcher.ok()) return batcher.status();
  service->batcher_ = *std::move(batcher);
  return service;
}

ModelService::ModelService(ModelInfo info, std::unique_ptr<Engine> engine, const ModelServiceOptions& options,
                           const SharedResources& shared, std::function<void(const absl::Status&)> on_fault)
    : info_(std::move(info)),
      engine_(std::move(engine)),
      options_(options),
      shared_(shared),
      on_fault_(std::move(on_fault)),
      reply_pool_("lion-reply", 1) {}

ModelService::~ModelService() = default;

void ModelService::Drain() { batcher_->Drain(); }

absl::Status ModelService::WarmUp(int64_t budget_ns, const std::function<void(const std::string&)>& progress,
                                  const std::function<void(const std::string&)>& warning) {
  const int64_t begin_ns = shared_.clock->NowNs();
  int64_t side = engine_->config().image.size;
  absl::StatusOr<int64_t> tokens = engine_->CountTokens(side, side);
  if (!tokens.ok()) return tokens.status();
  if (*tokens > options_.max_input_tokens) {
    side = engine_->config().patch_size;
    tokens = engine_->CountTokens(side, side);
    if (!tokens.ok()) return tokens.status();
  }
  const std::vector<uint8_t> blank(static_cast<size_t>(side * side * 3));
  const Request request = {.image = {PixelLayout::kInterleavedUint8, blank.data(), side, side},
                           .embedding = true,
                           .pooling = engine_->config().pooling,
                           .logits = engine_->config().classes > 0};
  const int64_t most = std::max<int64_t>(1, std::min(options_.max_batch_tokens / *tokens, options_.max_batch_inputs));
  for (int64_t inputs = 1;; inputs = std::min(2 * inputs, most)) {
    const std::vector<Request> requests(static_cast<size_t>(inputs), request);
    std::vector<Result> results;
    const int64_t start_ns = shared_.clock->NowNs();
    {
      const FairBudget::Grant turn = shared_.device_turn->Acquire(1);
      if (absl::Status status = Forward(requests, &results); !status.ok()) return status;
    }
    const int64_t end_ns = shared_.clock->NowNs();
    progress(absl::StrCat("warm-up of ", info_.name, ": ", inputs, inputs == 1 ? " image, " : " images, ",
                          inputs * *tokens, " tokens: ", std::round(static_cast<double>(end_ns - start_ns) / 1e4) / 100,
                          " ms"));
    if (!results[0].status.ok()) {
      warning(absl::StrCat("model ", info_.name, " answers a blank image with: ", results[0].status.message()));
    }
    const int64_t next_ns = 2 * (end_ns - start_ns);
    if (inputs == most || end_ns - begin_ns + next_ns > budget_ns) return absl::OkStatus();
  }
}

absl::Status ModelService::CheckInputCount(int64_t inputs) const {
  if (inputs == 0) return absl::InvalidArgumentError("inputs is empty: want at least one");
  if (inputs <= options_.max_inputs_per_call) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the call has ", inputs, " inputs, the limit is ",
                                                 options_.max_inputs_per_call, " (--max-inputs-per-call)"));
}

absl::Status ModelService::StillWanted(const CallInProgress& call) const {
  if (shared_.clock->NowNs() >= call.request.deadline_ns) {
    return absl::DeadlineExceededError("the deadline passed before the work began");
  }
  if (call.abandoned->load(std::memory_order_relaxed)) return absl::CancelledError("cancelled by the caller");
  return absl::OkStatus();
}

absl::StatusOr<ModelService::InputCost> ModelService::CheckInput(const InferenceInput& input,
                                                                 const ImagePreprocessOptions& options) const {
  if (!input.status.ok()) return input.status;
  int64_t height = input.pixels.height;
  int64_t width = input.pixels.width;
  InputCost cost;
  if (!input.encoded.empty()) {
    absl::StatusOr<PreprocessPlan> plan = PlanPreprocess(input.encoded, options, engine_->config().patch_size);
    if (!plan.ok()) return plan.status();
    height = plan->size.height;
    width = plan->size.width;
    cost.decode_bytes = plan->memory_bytes;
    cost.decode_pixels = DecodePixels(input.encoded, options.decode, plan->size);
    if (const int64_t limit = shared_.decode_bytes->limit(); cost.decode_bytes > limit) {
      return absl::InvalidArgumentError(absl::StrCat(
          "decoding the image takes up to ", cost.decode_bytes, " bytes of memory, the limit is ", limit,
          " (--max-decode-bytes): send fewer pixels or a baseline JPEG, which is decoded row by row, or raise the "
          "limit"));
    }
  }
  absl::StatusOr<int64_t> tokens = engine_->CountTokens(height, width);
  if (!tokens.ok()) return tokens.status();
  if (*tokens > options_.max_input_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("an image of ", width, "x", height, " pixels has ", *tokens,
                                                   " tokens, the limit is ", options_.max_input_tokens,
                                                   " (--max-input-tokens)"));
  }
  cost.tokens = *tokens;
  return cost;
}

absl::Status ModelService::ChargeReply(const InferenceCall& call, int64_t inputs, int64_t tokens) const {
  const bool row_per_token = call.embedding && call.pooling == Pooling::kNone;
  const int64_t row_bytes = engine_->config().width * static_cast<int64_t>(sizeof(float));
  if (row_per_token && tokens > options_.max_reply_bytes / row_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("one row per token of ", tokens, " tokens is more than the ", options_.max_reply_bytes,
                     " bytes a reply may have: split the call, or choose another pooling"));
  }
  if (call.memory == nullptr) return absl::OkStatus();
  int64_t bytes = inputs * call.class_scores * kClassScoreBytes;
  if (call.embedding) bytes += kReplyCopies * (row_per_token ? tokens : inputs) * row_bytes;
  return call.memory->Extend(bytes);
}

absl::Status ModelService::Run(InferenceCall request, std::shared_ptr<std::atomic<bool>> abandoned, Done done) {
  const auto call = std::make_shared<CallInProgress>();
  call->request = std::move(request);
  call->request.image.decode.max_pixels = options_.max_image_pixels;
  call->abandoned = std::move(abandoned);
  const std::vector<InferenceInput>& inputs = call->request.inputs;
  if (absl::Status status = CheckInputCount(static_cast<int64_t>(inputs.size())); !status.ok()) {
    return status;
  }
  if (device_lost_.load(std::memory_order_relaxed)) return absl::UnavailableError("the device is lost");
  if (absl::Status status = StillWanted(*call); !status.ok()) return status;

  call->results.resize(inputs.size());
  std::vector<InputCost> costs(inputs.size());
  int64_t call_tokens = 0;
  int64_t accepted = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    absl::StatusOr<InputCost> cost = CheckInput(inputs[i], call->request.image);
    if (!cost.ok()) {
      if (!call->request.partial_results) return OfInput(i, cost.status());
      call->results[i].status = cost.status();
      continue;
    }
    costs[i] = *cost;
    call->results[i].tokens = cost->tokens;
    call_tokens += cost->tokens;
    ++accepted;
  }
  if (absl::Status status = ChargeReply(call->request, accepted, call_tokens); !status.ok()) {
    return status;
  }
  if (accepted == 0) {
    InferenceReply reply;
    reply.results = std::move(call->results);
    done(std::move(reply));
    return absl::OkStatus();
  }
  absl::StatusOr<Batcher::Reservation> room = batcher_->Reserve(call_tokens);
  if (!room.ok()) return room.status();

  call->done = std::move(done);
  call->remaining.store(accepted, std::memory_order_relaxed);
  std::vector<Batcher::Entry> entries;
  std::vector<DecodeJob> jobs;
  for (size_t i = 0; i < costs.size(); ++i) {
    if (costs[i].tokens == 0) continue;
    auto task = std::make_unique<Task>(this, call, i);
    Batcher::Reservation reservation = room->Split(costs[i].tokens);
    if (inputs[i].encoded.empty()) {
      task->pixels = inputs[i].pixels;
      entries.push_back(MakeEntry(std::move(task), std::move(reservation)));
      continue;
    }
    jobs.push_back(MakeDecodeJob(std::move(task), std::move(reservation), costs[i]));
  }
  if (!jobs.empty()) {
    absl::Status status = shared_.decode_pool->Submit(std::move(jobs), call->request.priority);
    if (!status.ok()) return status;
  }
  // Nothing but the tasks may answer from here on.
  if (!entries.empty()) batcher_->Submit(std::move(entries));
  return absl::OkStatus();
}

DecodeJob ModelService::MakeDecodeJob(std::unique_ptr<Task> task, Batcher::Reservation reservation,
                                      const InputCost& cost) {
  DecodeJob job = {.pixels = cost.decode_pixels,
                   .bytes = cost.decode_bytes,
                   .deadline_ns = task->call().request.deadline_ns,
                   .cancelled = task->call().abandoned.get()};
  struct Work {
    std::unique_ptr<Task> task;
    Batcher::Reservation reservation;
  };
  // Shared, because a std::function must be copyable.
  auto work = std::make_shared<Work>(Work{std::move(task), std::move(reservation)});
  job.run = [this, work = std::move(work)](const absl::Status& dropped) {
    if (!dropped.ok()) return work->task->Drop(dropped);
    Decode(std::move(work->task), std::move(work->reservation));
  };
  return job;
}

void ModelService::Decode(std::unique_ptr<Task> task, Batcher::Reservation reservation) {
  task->timing.queue_ns = task->Lap(shared_.clock->NowNs());
  if (absl::Status status = StillWanted(task->call()); !status.ok()) return task->Drop(status);
  absl::StatusOr<RgbImage> image =
      Preprocess(task->input().encoded, task->call().request.image, engine_->config().patch_size);
  if (!image.ok()) return task->Drop(image.status());
  task->image = *std::move(image);
  task->pixels = {PixelLayout::kInterleavedUint8, task->image.pixels(), task->image.height(), task->image.width()};
  task->timing.preprocess_ns = task->Lap(shared_.clock->NowNs());
  std::vector<Batcher::Entry> entries;
  entries.push_back(MakeEntry(std::move(task), std::move(reservation)));
  batcher_->Submit(std::move(entries));
}

Batcher::Entry ModelService::MakeEntry(std::unique_ptr<Task> task, Batcher::Reservation reservation) const {
  Batcher::Entry entry;
  entry.reservation = std::move(reservation);
  entry.caller = task->call().request.caller;
  entry.priority = task->call().request.priority;
  entry.deadline_ns = task->call().request.deadline_ns;
  entry.cancelled = task->call().abandoned.get();
  entry.task = std::move(task);
  return entry;
}

absl::Status ModelService::Forward(const std::vector<Request>& requests, std::vector<Result>* results) try {
  results->clear();
  results->resize(requests.size());
  return engine_->Forward(requests, std::span<Result>(*results));
} catch (const std::bad_alloc&) {
  return TryAgainIn(kUnknownPushbackMs, "no memory for the forward pass");
}

void ModelService::RunBatch(Batch batch) {
  struct Finished {
    std::vector<std::unique_ptr<BatchTask>> tasks;
    std::vector<Result> results;
    absl::Status device;
  };
  auto finished = std::make_shared<Finished>();
  std::vector<Request> requests;
  requests.reserve(batch.tasks.size());
  for (const std::unique_ptr<BatchTask>& task : batch.tasks) {
    auto& input = static_cast<Task&>(*task);
    input.timing.queue_ns += input.Lap(batch.formed_ns);
    requests.push_back(input.MakeRequest());
  }
  const int64_t start_ns = shared_.clock->NowNs();
  finished->device = device_lost_.load(std::memory_order_relaxed) ? absl::UnavailableError("an earlier batch")
                                                                  : Forward(requests, &finished->results);
  const int64_t compute_ns = shared_.clock->NowNs() - start_ns;
  if (!finished->device.ok() && !absl::IsResourceExhausted(finished->device)) {
    if (!device_lost_.exchange(true)) on_fault_(finished->device);
    finished->device = absl::UnavailableError(absl::StrCat("the device is lost: ", finished->device.message()));
  }
  finished->tasks = std::move(batch.tasks);
  reply_pool_.Submit([finished = std::move(finished), compute_ns, tokens = batch.tokens] {
    const auto inputs = static_cast<int64_t>(finished->tasks.size());
    for (size_t i = 0; i < finished->tasks.size(); ++i) {
      // After an error there may be no results.
      Result result = finished->device.ok() ? std::move(finished->results[i]) : Result();
      static_cast<Task&>(*finished->tasks[i]).Finish(finished->device, std::move(result), compute_ns, inputs, tokens);
      finished->tasks[i].reset();
    }
  });
}

}  // namespace lion
