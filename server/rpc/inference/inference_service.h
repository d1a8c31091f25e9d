// The handlers of inference.GRPCInferenceService, the Open Inference Protocol.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "inference/inference.grpc.pb.h"
#include "server/model_control.h"
#include "server/rpc/exchange.h"
#include "server/rpc/open_streams.h"
#include "server/rpc/stream_reactor.h"

namespace lion {

struct InferenceServiceOptions {
  std::string version;  // of the server
  bool allow_model_control = false;
  // Whether health says SERVING of that name; "": the server. From any thread.
  std::function<bool(const std::string& name)> is_serving;
};

namespace internal {

using Protocol = inference::GRPCInferenceService;
using ProtocolOfServer = Protocol::WithCallbackMethod_ServerLive<
    Protocol::WithCallbackMethod_ServerReady<Protocol::WithCallbackMethod_ServerMetadata<Protocol::Service>>>;
using ProtocolOfModels = Protocol::WithCallbackMethod_ModelReady<Protocol::WithCallbackMethod_ModelMetadata<
    Protocol::WithCallbackMethod_ModelConfig<Protocol::WithCallbackMethod_ModelStatistics<ProtocolOfServer>>>>;
using ProtocolOfRepository =
    Protocol::WithCallbackMethod_RepositoryIndex<Protocol::WithCallbackMethod_RepositoryModelLoad<
        Protocol::WithCallbackMethod_RepositoryModelUnload<ProtocolOfModels>>>;
using ProtocolOfSharedMemory = Protocol::WithCallbackMethod_SystemSharedMemoryStatus<
    Protocol::WithCallbackMethod_SystemSharedMemoryRegister<Protocol::WithCallbackMethod_SystemSharedMemoryUnregister<
        Protocol::WithCallbackMethod_CudaSharedMemoryStatus<Protocol::WithCallbackMethod_CudaSharedMemoryRegister<
            Protocol::WithCallbackMethod_CudaSharedMemoryUnregister<ProtocolOfRepository>>>>>>;
using ProtocolOfSettings =
    Protocol::WithCallbackMethod_TraceSetting<Protocol::WithCallbackMethod_LogSettings<ProtocolOfSharedMemory>>;

}  // namespace internal

// Requests of inference calls come as bytes, as those of lion.v1 do, and go the same way; the others are small.
using InferenceServiceBase = internal::Protocol::WithRawCallbackMethod_ModelInfer<
    internal::Protocol::WithRawCallbackMethod_ModelStreamInfer<internal::ProtocolOfSettings>>;

// No handler blocks. What `server` points to must outlive the gRPC server that this is registered with.
class InferenceServiceImpl final : public InferenceServiceBase {
 public:
  InferenceServiceImpl(const ExchangeContext& server, const StreamLimits& stream_limits,
                       InferenceServiceOptions options)
      : server_(server), stream_limits_(stream_limits), options_(std::move(options)) {}

  // As of RpcServer. From any thread.
  void SetModelControl(ModelControl* control) { control_ = control; }
  // As LionServiceImpl's.
  void DrainStreams() { streams_.Drain(); }

  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;

  Reactor* ServerLive(Context* context, const inference::ServerLiveRequest* request,
                      inference::ServerLiveResponse* response) override;
  Reactor* ServerReady(Context* context, const inference::ServerReadyRequest* request,
                       inference::ServerReadyResponse* response) override;
  Reactor* ModelReady(Context* context, const inference::ModelReadyRequest* request,
                      inference::ModelReadyResponse* response) override;
  Reactor* ServerMetadata(Context* context, const inference::ServerMetadataRequest* request,
                          inference::ServerMetadataResponse* response) override;
  Reactor* ModelMetadata(Context* context, const inference::ModelMetadataRequest* request,
                         inference::ModelMetadataResponse* response) override;
  Reactor* ModelConfig(Context* context, const inference::ModelConfigRequest* request,
                       inference::ModelConfigResponse* response) override;
  Reactor* ModelStatistics(Context* context, const inference::ModelStatisticsRequest* request,
                           inference::ModelStatisticsResponse* response) override;
  Reactor* RepositoryIndex(Context* context, const inference::RepositoryIndexRequest* request,
                           inference::RepositoryIndexResponse* response) override;
  Reactor* RepositoryModelLoad(Context* context, const inference::RepositoryModelLoadRequest* request,
                               inference::RepositoryModelLoadResponse* response) override;
  Reactor* RepositoryModelUnload(Context* context, const inference::RepositoryModelUnloadRequest* request,
                                 inference::RepositoryModelUnloadResponse* response) override;
  Reactor* ModelInfer(Context* context, const grpc::ByteBuffer* request, grpc::ByteBuffer* response) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ModelStreamInfer(Context* context) override;

  Reactor* SystemSharedMemoryStatus(Context* context, const inference::SystemSharedMemoryStatusRequest* request,
                                    inference::SystemSharedMemoryStatusResponse* response) override;
  Reactor* SystemSharedMemoryRegister(Context* context, const inference::SystemSharedMemoryRegisterRequest* request,
                                      inference::SystemSharedMemoryRegisterResponse* response) override;
  Reactor* SystemSharedMemoryUnregister(Context* context, const inference::SystemSharedMemoryUnregisterRequest* request,
                                        inference::SystemSharedMemoryUnregisterResponse* response) override;
  Reactor* CudaSharedMemoryStatus(Context* context, const inference::CudaSharedMemoryStatusRequest* request,
                                  inference::CudaSharedMemoryStatusResponse* response) override;
  Reactor* CudaSharedMemoryRegister(Context* context, const inference::CudaSharedMemoryRegisterRequest* request,
                                    inference::CudaSharedMemoryRegisterResponse* response) override;
  Reactor* CudaSharedMemoryUnregister(Context* context, const inference::CudaSharedMemoryUnregisterRequest* request,
                                      inference::CudaSharedMemoryUnregisterResponse* response) override;
  Reactor* TraceSetting(Context* context, const inference::TraceSettingRequest* request,
                        inference::TraceSettingResponse* response) override;
  Reactor* LogSettings(Context* context, const inference::LogSettingsRequest* request,
                       inference::LogSettingsResponse* response) override;

 private:
  // For what only asks about models, while the server lets calls in.
  absl::StatusOr<SharedModel> FindModel(const std::string& name, const std::string& version) const;
  absl::StatusOr<ModelControl*> FindControl(bool to_change) const;

  const ExchangeContext server_;
  const StreamLimits stream_limits_;
  const InferenceServiceOptions options_;
  OpenStreams streams_;
  std::atomic<ModelControl*> control_ = nullptr;
};

}  // namespace lion
