#include "server/rpc/inference/outline.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "inference/inference.pb.h"

namespace lion {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using inference::InferTensorContents;
using InferInput = inference::ModelInferRequest::InferInputTensor;

// Of names, parameters and whatever is small: an entry of a map takes 6 bytes on the wire and some 200 in memory.
constexpr int64_t kBytesPerHeaderByte = 40;
constexpr int64_t kMostHeaderBytes = int64_t{1} << 20;
constexpr int64_t kBytesPerString = 48;
// An id has as little as a byte on the wire: as it is parsed, and as the engine's.
constexpr int64_t kBytesPerVarint = sizeof(int64_t) + sizeof(int32_t);

// Calls `visit(field, bytes)` for each field up to the stream's limit. `visit` may read a message's fields from the
// stream; the rest of it is skipped. False: it does not parse.
template <class Visit>
bool ForEachField(CodedInputStream* stream, const Visit& visit) {
  while (const uint32_t tag = stream->ReadTag()) {
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      const int begin = stream->CurrentPosition();
      if (!WireFormatLite::SkipField(stream, tag)) return false;
      visit(field, int64_t{stream->CurrentPosition() - begin});
      continue;
    }
    int length = 0;
    if (!stream->ReadVarintSizeAsInt(&length)) return false;
    const auto outer = stream->PushLimit(length);
    visit(field, int64_t{length});
    const bool whole = stream->Skip(stream->BytesUntilLimit());
    stream->PopLimit(outer);
    if (!whole) return false;
  }
  return true;
}

// Both are added to.
void MeasureContents(CodedInputStream* stream, int64_t* elements, int64_t* bytes) {
  ForEachField(stream, [&](int field, int64_t length) {
    switch (field) {
      case InferTensorContents::kBytesContentsFieldNumber:
        ++*elements;
        *bytes += length + kBytesPerString;
        break;
      case InferTensorContents::kBoolContentsFieldNumber:
      case InferTensorContents::kFp32ContentsFieldNumber:
      case InferTensorContents::kFp64ContentsFieldNumber:
        *bytes += length;
        break;
      default:
        *bytes += kBytesPerVarint * length;
    }
  });
}

}  // namespace

absl::StatusOr<Outline> OutlineOfInfer(const grpc::ByteBuffer* message) {
  grpc::ProtoBufferReader reader(const_cast<grpc::ByteBuffer*>(message));  // which it only reads
  CodedInputStream stream(&reader);
  constexpr int64_t kTagBytes = 2;  // of a field, with its length
  int64_t elements = 0, header_bytes = 0;
  Outline outline;
  ForEachField(&stream, [&](int field, int64_t length) {
    header_bytes += kTagBytes;
    if (field == inference::ModelInferRequest::kRawInputContentsFieldNumber) {
      outline.bytes += length + kBytesPerString;
    } else if (field == inference::ModelInferRequest::kInputsFieldNumber) {
      ForEachField(&stream, [&](int inner, int64_t inner_length) {
        if (inner == InferInput::kContentsFieldNumber) {
          MeasureContents(&stream, &elements, &outline.bytes);
        } else {
          header_bytes += kTagBytes + inner_length;
        }
      });
    } else {
      header_bytes += length;
    }
  });
  if (header_bytes > kMostHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("names, shapes and parameters of the request take ", header_bytes,
                                                   " bytes, the limit is ", kMostHeaderBytes));
  }
  outline.inputs = std::max<int64_t>(1, elements);
  outline.bytes = std::max(outline.bytes + kBytesPerHeaderByte * header_bytes, static_cast<int64_t>(message->Length()));
  return outline;
}

}  // namespace lion
