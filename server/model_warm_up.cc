#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "server/model_service.h"

namespace lion {

absl::Status ModelService::WarmUp(int64_t budget_ns, int64_t batch_ns,
                                  const std::function<void(const std::string&)>& progress,
                                  const std::function<void(const std::string&)>& warning) {
  const int64_t begin_ns = shared_.clock->NowNs();
  absl::StatusOr<PreparedInput> blank = preparer_->Blank();
  if (!blank.ok()) return blank.status();
  const ModelConfig& config = engine_->config();
  const Request request = {.image = blank->image,
                           .text = blank->text(),
                           .embedding = true,
                           .pooling = config.pooling,
                           .logits = config.classes > 0,
                           .masked = blank->masked,
                           .predictions = config.masked_lm ? 1 : 0};
  const int64_t most =
      std::max<int64_t>(1, std::min(options_.max_batch_tokens / blank->tokens, options_.max_batch_inputs));
  for (int64_t inputs = 1;; inputs = std::min(2 * inputs, most)) {
    const std::vector<Request> requests(static_cast<size_t>(inputs), request);
    std::vector<Result> results;
    const int64_t start_ns = shared_.clock->NowNs();
    {
      const FairBudget::Grant turn = shared_.device_turn->Acquire(1);
      if (absl::Status status = Forward(requests, &results); !status.ok()) return status;
    }
    const int64_t end_ns = shared_.clock->NowNs();
    progress(absl::StrCat("warm-up of ", info_.name, ": ", inputs, inputs == 1 ? " input, " : " inputs, ",
                          inputs * blank->tokens,
                          " tokens: ", std::round(static_cast<double>(end_ns - start_ns) / 1e4) / 100, " ms"));
    if (!results[0].status.ok()) {
      warning(absl::StrCat("model ", info_.name, " answers a blank input with: ", results[0].status.message()));
    }
    const int64_t next_ns = 2 * (end_ns - start_ns);
    if (inputs == most || next_ns > batch_ns || end_ns - begin_ns + next_ns > budget_ns) return absl::OkStatus();
  }
}

}  // namespace lion
