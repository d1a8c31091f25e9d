// What of the protocol is not offered: each call says so, where gRPC's own answer would say nothing.
#include "server/rpc/inference/inference_service.h"
#include "server/rpc/status.h"

namespace lion {
namespace {

grpc::ServerUnaryReactor* NotOffered(grpc::CallbackServerContext* context, const char* what) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(FinalStatus(absl::UnimplementedError(what), context));
  return reactor;
}

constexpr char kSharedMemory[] = "shared memory is not offered: send tensors in the request";
constexpr char kSettings[] = "settings of traces and logs are not offered: see the server's flags";

}  // namespace

using Reactor = grpc::ServerUnaryReactor;

Reactor* InferenceServiceImpl::SystemSharedMemoryStatus(Context* context,
                                                        const inference::SystemSharedMemoryStatusRequest* /*request*/,
                                                        inference::SystemSharedMemoryStatusResponse* /*response*/) {
  return NotOffered(context, kSharedMemory);
}

Reactor* InferenceServiceImpl::SystemSharedMemoryRegister(
    Context* context, const inference::SystemSharedMemoryRegisterRequest* /*request*/,
    inference::SystemSharedMemoryRegisterResponse* /*response*/) {
  return NotOffered(context, kSharedMemory);
}

Reactor* InferenceServiceImpl::SystemSharedMemoryUnregister(
    Context* context, const inference::SystemSharedMemoryUnregisterRequest* /*request*/,
    inference::SystemSharedMemoryUnregisterResponse* /*response*/) {
  return NotOffered(context, kSharedMemory);
}

Reactor* InferenceServiceImpl::CudaSharedMemoryStatus(Context* context,
                                                      const inference::CudaSharedMemoryStatusRequest* /*request*/,
                                                      inference::CudaSharedMemoryStatusResponse* /*response*/) {
  return NotOffered(context, kSharedMemory);
}

Reactor* InferenceServiceImpl::CudaSharedMemoryRegister(Context* context,
                                                        const inference::CudaSharedMemoryRegisterRequest* /*request*/,
                                                        inference::CudaSharedMemoryRegisterResponse* /*response*/) {
  return NotOffered(context, kSharedMemory);
}

Reactor* InferenceServiceImpl::CudaSharedMemoryUnregister(
    Context* context, const inference::CudaSharedMemoryUnregisterRequest* /*request*/,
    inference::CudaSharedMemoryUnregisterResponse* /*response*/) {
  return NotOffered(context, kSharedMemory);
}

Reactor* InferenceServiceImpl::TraceSetting(Context* context, const inference::TraceSettingRequest* /*request*/,
                                            inference::TraceSettingResponse* /*response*/) {
  return NotOffered(context, kSettings);
}

Reactor* InferenceServiceImpl::LogSettings(Context* context, const inference::LogSettingsRequest* /*request*/,
                                           inference::LogSettingsResponse* /*response*/) {
  return NotOffered(context, kSettings);
}

}  // namespace lion
