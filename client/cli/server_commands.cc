#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/connection.h"
#include "client/cli/console.h"
#include "client/cli/json_lines.h"
#include "client/cli/names.h"
#include "client/cli/text.h"

namespace lion {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

std::vector<std::string> ModelRow(const v1::Model& model) {
  std::string tasks;
  for (const std::string& task : model.tasks()) absl::StrAppend(&tasks, tasks.empty() ? "" : ",", task);
  const std::string order = model.patch_order().empty() ? "-" : model.patch_order();
  std::vector<std::string> row = {model.name(),
                                  model.version(),
                                  ModalityText(model.modality()),
                                  tasks,
                                  model.variant(),
                                  order,
                                  FormatCount(model.parameters()),
                                  absl::StrCat(model.embedding_dimensions()),
                                  absl::StrCat(model.labels_size()),
                                  PoolingText(model.pooling()),
                                  absl::StrCat(model.max_tokens()),
                                  model.device(),
                                  model.compute_type(),
                                  FormatBytes(model.weight_bytes()),
                                  model.weights()};
  for (std::string& cell : row) cell = Printable(cell);
  return row;
}

}  // namespace

int RunModels(const ServerFlags& flags, bool json) {
  const auto client = Connect(flags);
  if (!client.ok()) return Fail(std::string(client.status().message()));
  const auto models = (*client)->ListModels();
  if (!models.ok()) return Fail(ExplainError(models.status(), flags.address));
  std::vector<std::vector<std::string>> rows = {{"NAME", "VERSION", "MODALITY", "TASKS", "VARIANT", "ORDER",
                                                 "PARAMETERS", "DIMENSIONS", "LABELS", "POOLING", "MAX TOKENS",
                                                 "DEVICE", "COMPUTE", "MEMORY", "WEIGHTS"}};
  std::string lines;
  for (const v1::Model& model : models->models()) {
    if (json) absl::StrAppend(&lines, ModelJson(model), "\n");
    rows.push_back(ModelRow(model));
  }
  std::vector<size_t> widths;
  return Print(json ? lines : FormatTable(rows, "lrllllrrrlrllrl", widths));
}

int RunHealth(const ServerFlags& flags, milliseconds wait) {
  const auto client = Connect(flags);
  if (!client.ok()) return Fail(std::string(client.status().message()));
  const Clock::time_point end = Clock::now() + wait;
  while (true) {
    CallOptions call;
    if (wait.count() > 0) {
      // One call that hangs must not outlast the wait; the last one still gets a moment.
      const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
      const milliseconds limit(flags.timeout_ms > 0 ? flags.timeout_ms : wait.count());
      call.timeout = std::clamp(left, std::min(milliseconds(100), limit), limit);
    }
    const auto state = (*client)->CheckHealth("", call);
    if (state.ok() && *state == HealthState::kServing) {
      return Print("SERVING\n");
    }
    if (Clock::now() + milliseconds(100) >= end) {
      if (!state.ok()) return Fail(ExplainError(state.status(), flags.address));
      return Print(*state == HealthState::kNotServing ? "NOT_SERVING\n" : "UNKNOWN\n", 1);
    }
    Pause(**client, milliseconds(100));
  }
}

}  // namespace lion
