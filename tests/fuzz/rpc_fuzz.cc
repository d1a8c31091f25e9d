// Arbitrary bytes as the message of any call of lion.v1, the messages of a stream, or a ModelInfer request, through
// gRPC's in-process transport to the server's handlers.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <set>
#include <string>
#include <vector>

#include "server/rpc/inference/inference_service.h"
#include "server/rpc/lion_service.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/puppet_service.h"

namespace lion {
namespace {

using Stub = grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer>;

// A server that listens to nobody but `stub`.
struct Server {
  fuzz::PuppetResources resources;
  ModelRegistry registry{&resources.clock};
  ByteAccount memory{int64_t{1} << 20};
  const ExchangeContext exchange{&registry, &resources.clock, &memory};
  const StreamLimits limits{.window = 3, .bytes = 64 << 10};
  LionServiceImpl service{exchange, limits};
  InferenceServiceImpl inference{exchange, limits, {.is_serving = [](const std::string&) { return true; }}};
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<Stub> stub;

  explicit Server(Modality modality) {
    std::vector<std::unique_ptr<ModelService>> models;
    models.push_back(fuzz::MakePuppetService(&resources, modality));
    registry.Serve(std::move(models));
    grpc::ServerBuilder builder;
    builder.RegisterService(&service);
    builder.RegisterService(&inference);
    server = builder.BuildAndStart();
    fuzz::Check(server != nullptr, "the server starts");
    stub = std::make_unique<Stub>(server->InProcessChannel({}));
  }
};

std::string Path(const std::string& method) { return "/lion.v1.LionService/" + method; }

grpc::ByteBuffer BufferOf(std::string_view bytes) {
  const grpc::Slice slice(bytes.data(), bytes.size());
  return grpc::ByteBuffer(&slice, 1);
}

// The codes that the API documents, with a model that is there and a device that works.
void CheckCode(int code, const std::string& message) {
  switch (code) {
    case grpc::StatusCode::OK:
      return;
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::FAILED_PRECONDITION:
      fuzz::Check(!message.empty(), "an error says what is wrong");
      return;
    default:
      std::fprintf(stderr, "code %d: %s\n", code, message.c_str());
      fuzz::Check(false, "the code of a reply");
  }
}

// What a string that is not UTF-8 would make impossible.
template <class Message>
Message Read(grpc::ByteBuffer* buffer) {
  Message message;
  fuzz::Check(grpc::SerializationTraits<Message>::Deserialize(buffer, &message).ok(), "the caller can read the reply");
  return message;
}

template <class Response>
void Call(Server& server, const std::string& path, std::string_view message) {
  const grpc::ByteBuffer request = BufferOf(message);
  grpc::ByteBuffer response;
  grpc::ClientContext context;
  grpc::Status status;
  Mutex mutex;
  CondVar changed;
  bool done = false;
  server.stub->UnaryCall(&context, path, grpc::StubOptions(), &request, &response, [&](grpc::Status result) {
    MutexLock lock(mutex);
    status = std::move(result);
    done = true;
    changed.NotifyAll();
  });
  {
    MutexLock lock(mutex);
    while (!done) changed.Wait(mutex);
  }
  CheckCode(status.error_code(), status.error_message());
  if (status.ok()) Read<Response>(&response);
}

// Sends all messages, then reads responses until the stream ends.
template <class Response>
class Stream final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Stream(Server& server, const std::string& method, const std::vector<std::string_view>& messages) {
    for (const std::string_view message : messages) requests_.push_back(BufferOf(message));
    server.stub->PrepareBidiStreamingCall(&context_, Path(method), grpc::StubOptions(), this);
    StartRead(&response_);
    WriteNext();
    StartCall();
  }

  // Every request has one response, and the stream ends well.
  void AwaitAllAnswered() {
    MutexLock lock(mutex_);
    while (!done_) changed_.Wait(mutex_);
    fuzz::Check(status_.ok(), status_.error_message().c_str());
    fuzz::CheckEqual(static_cast<int64_t>(answered_.size()), static_cast<int64_t>(requests_.size()), "responses");
  }

  void OnWriteDone(bool ok) override {
    if (ok) WriteNext();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    const auto response = Read<Response>(&response_);
    fuzz::Check(response.sequence() < requests_.size(), "a response is to a request");
    fuzz::Check(answered_.insert(response.sequence()).second, "a request has one response");
    CheckCode(response.error().code(), response.error().message());
    StartRead(&response_);
  }

  void OnDone(const grpc::Status& status) override {
    MutexLock lock(mutex_);
    status_ = status;
    done_ = true;
    changed_.NotifyAll();
  }

 private:
  void WriteNext() {
    if (next_ == requests_.size()) {
      StartWritesDone();
    } else {
      StartWrite(&requests_[next_++]);
    }
  }

  grpc::ClientContext context_;
  std::vector<grpc::ByteBuffer> requests_;
  size_t next_ = 0;
  grpc::ByteBuffer response_;
  std::set<uint64_t> answered_;
  Mutex mutex_;
  CondVar changed_;
  grpc::Status status_;
  bool done_ = false;
};

// The messages of a stream: what two bytes 0x1e separate, at most 16 of them.
std::vector<std::string_view> Split(std::string_view bytes) {
  constexpr std::string_view kSeparator = "\x1e\x1e";
  std::vector<std::string_view> parts;
  while (parts.size() < 15) {
    const size_t end = bytes.find(kSeparator);
    if (end == std::string_view::npos) break;
    parts.push_back(bytes.substr(0, end));
    bytes.remove_prefix(end + kSeparator.size());
  }
  parts.push_back(bytes);
  return parts;
}

}  // namespace
}  // namespace lion

// The last byte says which call it is, and to which server.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lion;
  static auto* const kImages = new Server(Modality::kVision);
  static auto* const kTexts = new Server(Modality::kText);
  if (size == 0) return 0;
  const uint8_t call = data[--size];
  Server& server = (call & 8) == 0 ? *kImages : *kTexts;
  const std::string_view message = fuzz::AsText(data, size);
  if ((call & 16) != 0) {
    Call<inference::ModelInferResponse>(server, "/inference.GRPCInferenceService/ModelInfer", message);
    return 0;
  }
  switch (call % 8) {
    case 0:
      Call<v1::EmbedResponse>(server, Path("Embed"), message);
      break;
    case 1:
      Call<v1::ClassifyResponse>(server, Path("Classify"), message);
      break;
    case 2:
      Call<v1::ListModelsResponse>(server, Path("ListModels"), message);
      break;
    case 3:
      Call<v1::Model>(server, Path("GetModel"), message);
      break;
    case 4:
      Call<v1::FillMaskResponse>(server, Path("FillMask"), message);
      break;
    case 5:
      Call<v1::TokenizeResponse>(server, Path("Tokenize"), message);
      break;
    case 6:
      Stream<v1::EmbedResponse>(server, "EmbedStream", Split(message)).AwaitAllAnswered();
      break;
    case 7:
      Stream<v1::ClassifyResponse>(server, "ClassifyStream", Split(message)).AwaitAllAnswered();
      break;
  }
  return 0;
}
