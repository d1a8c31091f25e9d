#include "tests/fuzz/puppet_service.h"

#include <google/protobuf/stubs/logging.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fuzz/check.h"
#include "tests/server/puppet_engine.h"

namespace lion::fuzz {
namespace {

// Of few tokens, from a folder that is gone afterwards.
std::unique_ptr<Tokenizer> MakeTokenizer() {
  std::string folder = (std::filesystem::temp_directory_path() / "lion-fuzz-XXXXXX").string();
  Check(::mkdtemp(folder.data()) != nullptr, "a folder for the vocabulary");
  std::ofstream(folder + "/vocab.txt") << "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\nb\n##b\n.\nlion\n##s\n";
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Load(folder);
  std::filesystem::remove_all(folder);
  Check(tokenizer.ok(), "the vocabulary is well formed");
  return *std::move(tokenizer);
}

}  // namespace

std::unique_ptr<ModelService> MakePuppetService(PuppetResources* resources, Modality modality) {
  google::protobuf::SetLogHandler(nullptr);  // a line for each string that is not UTF-8
  const ModelServiceOptions options = {.max_input_tokens = 1024,
                                       .max_inputs_per_call = 8,
                                       .max_image_pixels = 1 << 15,
                                       .max_text_bytes = 1000,
                                       .max_reply_bytes = 1 << 20};
  const bool text = modality == Modality::kText;
  const SharedResources shared = {.clock = &resources->clock,
                                  .decode_pool = &resources->decode_pool,
                                  .decode_bytes = &resources->decode_bytes,
                                  .tokenize_pool = &resources->tokenize_pool,
                                  .device_turn = &resources->device_turn};
  absl::StatusOr<std::unique_ptr<ModelService>> service = ModelService::Create(
      {.name = "puppet", .parameters = 42, .weights = "puppet.pth"},
      text ? PuppetEngine::OfText() : std::make_unique<PuppetEngine>(), text ? MakeTokenizer() : nullptr, options,
      shared, [](const absl::Status&) { Check(false, "the puppet's device does not fail"); });
  Check(service.ok(), "the puppet's service starts");
  return *std::move(service);
}

}  // namespace lion::fuzz
