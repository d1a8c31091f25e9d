#include "server/rpc/tei/tei_rpc.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lion {

Outline OutlineOfTexts(const grpc::ByteBuffer* message, int texts) {
  using google::protobuf::internal::WireFormatLite;
  grpc::ProtoBufferReader reader(const_cast<grpc::ByteBuffer*>(message));  // which it only reads
  google::protobuf::io::CodedInputStream stream(&reader);
  Outline outline = {.inputs = 0, .bytes = static_cast<int64_t>(message->Length())};
  while (const uint32_t tag = stream.ReadTag()) {
    if (WireFormatLite::GetTagFieldNumber(tag) == texts) ++outline.inputs;
    if (!WireFormatLite::SkipField(&stream, tag)) break;
  }
  return outline;
}

void AddTeiHeaders(const tei::v1::Metadata& metadata, std::string_view device, grpc::CallbackServerContext* context) {
  constexpr double kNsPerMs = 1e6;
  const auto add_ms = [context](const char* key, uint64_t ns) {
    context->AddInitialMetadata(key, absl::StrFormat("%.3f", static_cast<double>(ns) / kNsPerMs));
  };
  context->AddInitialMetadata("x-compute-type", std::string(device));
  context->AddInitialMetadata("x-compute-characters", absl::StrCat(metadata.compute_chars()));
  context->AddInitialMetadata("x-compute-tokens", absl::StrCat(metadata.compute_tokens()));
  add_ms("x-compute-time", metadata.total_time_ns());
  add_ms("x-total-time", metadata.total_time_ns());
  add_ms("x-tokenization-time", metadata.tokenization_time_ns());
  add_ms("x-queue-time", metadata.queue_time_ns());
  add_ms("x-inference-time", metadata.inference_time_ns());
}

tei::v1::Metadata ConvertTeiMetadata(const InferenceReply& reply, int64_t characters) {
  int64_t tokens = 0;
  for (const InputReply& input : reply.results) tokens += input.tokens;
  tei::v1::Metadata out;
  out.set_compute_chars(static_cast<uint32_t>(characters));
  out.set_compute_tokens(static_cast<uint32_t>(tokens));
  out.set_tokenization_time_ns(static_cast<uint64_t>(reply.timing.preprocess_ns));
  out.set_queue_time_ns(static_cast<uint64_t>(reply.timing.queue_ns));
  out.set_inference_time_ns(static_cast<uint64_t>(reply.timing.compute_ns));
  return out;
}

}  // namespace lion
