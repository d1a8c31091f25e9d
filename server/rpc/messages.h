// Between gRPC's buffers and messages.
#pragma once

#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lion/v1/lion.pb.h"

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

// What there is to know of a request before it is parsed. What does not parse ends the count.
struct Outline {
  int64_t inputs = 0;
  // In memory once it is parsed: its length, and what token ids, which have as little as a byte each on the wire, take
  // as they are parsed and as the engine's.
  int64_t bytes = 0;
};

namespace internal {

// The bytes of an input's token ids on the wire, the stream being limited to the input.
inline int64_t IdBytes(google::protobuf::io::CodedInputStream* stream) {
  using google::protobuf::internal::WireFormatLite;
  int64_t bytes = 0;
  while (const uint32_t tag = stream->ReadTag()) {
    const int begin = stream->CurrentPosition();
    if (!WireFormatLite::SkipField(stream, tag)) break;
    if (WireFormatLite::GetTagFieldNumber(tag) == v1::Input::kTokensFieldNumber) {
      bytes += stream->CurrentPosition() - begin;
    }
  }
  return bytes;
}

}  // namespace internal

template <class Request>
Outline OutlineOf(const grpc::ByteBuffer* buffer) {
  using google::protobuf::internal::WireFormatLite;
  constexpr int64_t kBytesPerId = sizeof(int64_t) + sizeof(int32_t);
  grpc::ProtoBufferReader reader(const_cast<grpc::ByteBuffer*>(buffer));  // which it only reads
  google::protobuf::io::CodedInputStream stream(&reader);
  Outline outline;
  outline.bytes = static_cast<int64_t>(buffer->Length());
  while (const uint32_t tag = stream.ReadTag()) {
    const bool is_input = WireFormatLite::GetTagFieldNumber(tag) == Request::kInputsFieldNumber;
    outline.inputs += is_input ? 1 : 0;
    if (!is_input || WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&stream, tag)) break;
      continue;
    }
    uint32_t input_bytes = 0;
    if (!stream.ReadVarint32(&input_bytes) || input_bytes > buffer->Length()) break;
    const auto outer = stream.PushLimit(static_cast<int>(input_bytes));
    outline.bytes += kBytesPerId * internal::IdBytes(&stream);
    if (!stream.Skip(stream.BytesUntilLimit())) break;
    stream.PopLimit(outer);
  }
  return outline;
}

}  // namespace lion
