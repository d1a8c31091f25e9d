// Models of images and of texts over a puppet engine, with limits small enough for thousands of calls a second.
#pragma once

#include <memory>

#include "server/model_service.h"

namespace lion::fuzz {

// Lives as long as the process: threads of it run until the end.
struct PuppetResources {
  SteadyClock clock;
  FairBudget decode_bytes{int64_t{64} << 20};
  FairBudget device_turn{1};
  PreparePool decode_pool{{.threads = 1}, &clock, &decode_bytes};
  PreparePool tokenize_pool{{.threads = 1, .kind = kTextKind}, &clock, nullptr};
};

std::unique_ptr<ModelService> MakePuppetService(PuppetResources* resources, Modality modality);

}  // namespace lion::fuzz
