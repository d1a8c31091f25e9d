#include "server/model_service.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/image_preparer.h"
#include "server/pushback.h"
#include "server/reply_size.h"
#include "server/text_preparer.h"

namespace lion {
namespace {

// Full batches that one level of priority may overtake.
constexpr int64_t kBatchesPerPriority = 4;

// That a text usually has at least: English 4 to 6, Chinese 3.
constexpr int64_t kUsualBytesPerToken = 4;

}  // namespace

absl::StatusOr<std::unique_ptr<ModelService>> ModelService::Create(ModelInfo info, std::unique_ptr<Engine> engine,
                                                                   std::unique_ptr<Tokenizer> tokenizer,
                                                                   const ModelServiceOptions& options,
                                                                   const SharedResources& shared,
                                                                   std::function<void(const absl::Status&)> on_fault) {
  absl::StatusOr<ModelServiceOptions> settled = SettleOptions(options, engine->max_batch_tokens());
  if (!settled.ok()) return settled.status();
  std::unique_ptr<InputPreparer> preparer;
  if (engine->config().modality == Modality::kText) {
    const TokenLimit limit =
        LimitOfTexts(engine->config(), tokenizer.get(), options.max_input_tokens, settled->max_input_tokens);
    settled->max_input_tokens = limit.tokens;
    preparer = std::make_unique<TextPreparer>(engine.get(), tokenizer.get(), limit, settled->max_text_bytes,
                                              shared.tokenize_pool);
  } else {
    preparer = std::make_unique<ImagePreparer>(engine.get(), settled->max_input_tokens, shared.decode_bytes->limit(),
                                               shared.decode_pool);
  }
  std::unique_ptr<ModelService> service(new ModelService(std::move(info), std::move(engine), std::move(tokenizer),
                                                         std::move(preparer), *settled, shared, std::move(on_fault)));
  const BatcherOptions batcher_options = {
      .limits = {.max_tokens = settled->max_batch_tokens,
                 .max_batch_ns = settled->max_batch_ms * 1'000'000,
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

ModelService::ModelService(ModelInfo info, std::unique_ptr<Engine> engine, std::unique_ptr<Tokenizer> tokenizer,
                           std::unique_ptr<InputPreparer> preparer, const ModelServiceOptions& options,
                           const SharedResources& shared, std::function<void(const absl::Status&)> on_fault)
    : info_(std::move(info)),
      engine_(std::move(engine)),
      tokenizer_(std::move(tokenizer)),
      preparer_(std::move(preparer)),
      options_(options),
      shared_(shared),
      on_fault_(std::move(on_fault)),
      reply_pool_("lion-reply", 1) {}

ModelService::~ModelService() = default;

void ModelService::Drain() { batcher_->Drain(); }

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

absl::Status ModelService::MakeTasks(const std::shared_ptr<CallInProgress>& call,
                                     std::vector<std::unique_ptr<Task>>* tasks) {
  const std::vector<InferenceInput>& inputs = call->request.inputs;
  const Task::Home home = {&reply_pool_, &dropped_inputs_, info_.metrics};
  const int64_t now_ns = shared_.clock->NowNs();
  call->results.resize(inputs.size());
  tasks->resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto task = std::make_unique<Task>(home, call, i, now_ns);
    PreparedInput prepared;
    absl::StatusOr<InputCost> cost = preparer_->Check(call->request, inputs[i], &prepared);
    if (!cost.ok()) {
      if (!call->request.partial_results) return OfInput(i, cost.status());
      call->results[i].status = cost.status();
      continue;
    }
    task->cost = *cost;
    if (cost->ready) task->SetPrepared(std::move(prepared));
    (*tasks)[i] = std::move(task);
  }
  return absl::OkStatus();
}

absl::Status ModelService::ChargeReply(const InferenceCall& call,
                                       const std::vector<std::unique_ptr<Task>>& tasks) const {
  ReplySize size;
  for (const std::unique_ptr<Task>& task : tasks) {
    if (task != nullptr) size.Add(task->cost);
  }
  absl::StatusOr<int64_t> bytes = ReplyBytes(call, size, engine_->config(), options_.max_reply_bytes);
  if (!bytes.ok()) return bytes.status();
  return call.memory == nullptr ? absl::OkStatus() : call.memory->Extend(*bytes);
}

absl::StatusOr<std::shared_ptr<CallRoom>> ModelService::Reserve(const std::vector<std::unique_ptr<Task>>& tasks) {
  TokenNeed need;
  int64_t usual = 0;
  for (const std::unique_ptr<Task>& task : tasks) {
    const InputCost& cost = task->cost;
    need.least += cost.least_tokens;
    need.most += cost.most_tokens;
    usual += std::clamp(cost.work / kUsualBytesPerToken, cost.least_tokens, cost.most_tokens);
  }
  // What texts could come to is no reason to refuse a call.
  absl::StatusOr<Batcher::Reservation> room =
      batcher_->Reserve(std::max(need.least, std::min(usual, options_.max_queue_tokens)), need.most);
  if (!room.ok()) return room.status();
  return std::make_shared<CallRoom>(*std::move(room), need, options_.max_queue_tokens);
}

absl::Status ModelService::Run(InferenceCall request, std::shared_ptr<std::atomic<bool>> abandoned, Done done) {
  const auto call = std::make_shared<CallInProgress>();
  call->request = std::move(request);
  call->request.image.decode.max_pixels = options_.max_image_pixels;
  call->abandoned = std::move(abandoned);
  if (absl::Status status = CheckInputCount(static_cast<int64_t>(call->request.inputs.size())); !status.ok()) {
    return status;
  }
  if (device_lost_.load(std::memory_order_relaxed)) return absl::UnavailableError("the device is lost");
  if (absl::Status status = StillWanted(*call); !status.ok()) return status;

  std::vector<std::unique_ptr<Task>> tasks;
  if (absl::Status status = MakeTasks(call, &tasks); !status.ok()) return status;
  if (absl::Status status = ChargeReply(call->request, tasks); !status.ok()) return status;
  std::erase(tasks, nullptr);
  if (tasks.empty()) {
    InferenceReply reply;
    reply.results = std::move(call->results);
    done(std::move(reply));
    return absl::OkStatus();
  }
  absl::StatusOr<std::shared_ptr<CallRoom>> room = Reserve(tasks);
  if (!room.ok()) return room.status();

  call->done = std::move(done);
  call->remaining.store(static_cast<int64_t>(tasks.size()), std::memory_order_relaxed);
  std::vector<Batcher::Entry> entries;
  std::vector<PrepareJob> jobs;
  for (std::unique_ptr<Task>& task : tasks) {
    const InputCost& cost = task->cost;
    CallRoom::Claim claim(*room, {cost.least_tokens, cost.most_tokens});
    if (!cost.ready) {
      jobs.push_back(MakePrepareJob(std::move(task), std::move(claim)));
      continue;
    }
    absl::StatusOr<Batcher::Reservation> taken = claim.Take(cost.most_tokens);
    if (!taken.ok()) return taken.status();
    entries.push_back(MakeEntry(std::move(task), *std::move(taken)));
  }
  if (!jobs.empty()) {
    absl::Status status = preparer_->pool()->Submit(std::move(jobs), call->request.priority);
    if (!status.ok()) return status;
  }
  // Nothing but the tasks may answer from here on.
  if (!entries.empty()) Queue(std::move(entries));
  return absl::OkStatus();
}

PrepareJob ModelService::MakePrepareJob(std::unique_ptr<Task> task, CallRoom::Claim claim) {
  PrepareJob job = {.work = task->cost.work,
                    .bytes = task->cost.memory_bytes,
                    .deadline_ns = task->call().request.deadline_ns,
                    .cancelled = task->call().abandoned.get()};
  // Shared, because a std::function must be copyable.
  auto input = std::make_shared<Preparing>(Preparing{std::move(task), std::move(claim)});
  job.run = [this, input = std::move(input)](const absl::Status& dropped) {
    if (!dropped.ok()) return input->task->Drop(dropped);
    try {
      Prepare(input);
    } catch (const std::bad_alloc&) {
      input->task->Drop(TryAgainIn(kUnknownPushbackMs, "no memory to prepare the input"));
    }
  };
  return job;
}

void ModelService::Prepare(const std::shared_ptr<Preparing>& input) {
  Task& task = *input->task;
  task.timing.queue_ns = task.timing.prepare_wait_ns = task.Lap(shared_.clock->NowNs());
  if (absl::Status status = StillWanted(task.call()); !status.ok()) return task.Drop(status);
  absl::StatusOr<PreparedInput> prepared = preparer_->Prepare(task.call().request, task.input());
  if (!prepared.ok()) return task.Drop(prepared.status());
  const int64_t tokens = prepared->tokens;
  task.SetPrepared(*std::move(prepared));
  task.timing.preprocess_ns = task.Lap(shared_.clock->NowNs());
  if (task.call().request.encoding) {
    reply_pool_.Submit([input] {
      // Its room is free before its caller knows; the service waits for this thread.
      { const CallRoom::Claim given_up = std::move(input->claim); }
      input->task->Finish(absl::OkStatus(), Result());
    });
    return;
  }
  std::vector<Batcher::Entry> entries;
  entries.reserve(1);
  absl::StatusOr<Batcher::Reservation> taken = input->claim.Take(tokens);
  if (!taken.ok()) return task.Drop(taken.status());
  entries.push_back(MakeEntry(std::move(input->task), *std::move(taken)));
  Queue(std::move(entries));
}

void ModelService::Queue(std::vector<Batcher::Entry> entries) {
  for (const Batcher::Entry& entry : entries) static_cast<Task&>(*entry.task).EnterQueue();
  try {
    batcher_->Submit(std::move(entries));
  } catch (const std::bad_alloc&) {
    for (const Batcher::Entry& entry : entries) {
      entry.task->Drop(TryAgainIn(kUnknownPushbackMs, "no memory to queue the input"));
    }
  }
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

}  // namespace lion
