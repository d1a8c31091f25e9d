// Between gRPC's buffers and messages.
#pragma once

#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace lion {

// Takes the message out of gRPC's buffer. INTERNAL: it holds something else.
template <class Message>
absl::Status Parse(const grpc::ByteBuffer* buffer, Message* message) {
  // The buffer is gRPC's, and not a constant; emptied, so that what it held is not there twice.
  auto* mutable_buffer = const_cast<grpc::ByteBuffer*>(buffer);
  if (grpc::SerializationTraits<Message>::Deserialize(mutable_buffer, message).ok()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the request is not a valid ", Message::descriptor()->full_name(),
                                          " message (a string field that is not UTF-8?)"));
}

template <class Message>
absl::Status Serialize(const Message& message, grpc::ByteBuffer* buffer) {
  bool own_buffer = false;
  const grpc::Status status = grpc::SerializationTraits<Message>::Serialize(message, buffer, &own_buffer);
  return status.ok() ? absl::OkStatus() : absl::InternalError(status.error_message());
}

// The inputs of a request that is not parsed yet. What does not parse ends the count.
template <class Request>
int64_t CountInputs(const grpc::ByteBuffer* buffer) {
  using google::protobuf::internal::WireFormatLite;
  grpc::ProtoBufferReader reader(const_cast<grpc::ByteBuffer*>(buffer));  // which it only reads
  google::protobuf::io::CodedInputStream stream(&reader);
  int64_t inputs = 0;
  while (const uint32_t tag = stream.ReadTag()) {
    inputs += WireFormatLite::GetTagFieldNumber(tag) == Request::kInputsFieldNumber ? 1 : 0;
    if (!WireFormatLite::SkipField(&stream, tag)) break;
  }
  return inputs;
}

}  // namespace lion
