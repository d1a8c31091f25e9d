#include "tests/fuzz/puppet_service.h"

#include <google/protobuf/stubs/logging.h>

#include "tests/fuzz/check.h"
#include "tests/server/puppet_engine.h"

namespace lion::fuzz {

std::unique_ptr<ModelService> MakePuppetService(PuppetResources* resources) {
  google::protobuf::SetLogHandler(nullptr);  // a line for each string that is not UTF-8
  const ModelServiceOptions options = {
      .max_input_tokens = 1024, .max_inputs_per_call = 8, .max_image_pixels = 1 << 15, .max_reply_bytes = 1 << 20};
  const SharedResources shared = {&resources->clock, &resources->decode_pool, &resources->decode_bytes,
                                  &resources->device_turn};
  absl::StatusOr<std::unique_ptr<ModelService>> service = ModelService::Create(
      {.name = "puppet", .parameters = 42, .weights = "puppet.pth"}, std::make_unique<PuppetEngine>(), options, shared,
      [](const absl::Status&) { Check(false, "the puppet's device does not fail"); });
  Check(service.ok(), "the puppet's service starts");
  return *std::move(service);
}

}  // namespace lion::fuzz
