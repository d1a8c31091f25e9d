// What the files of the library share. Not installed.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>

#include "absl/status/statusor.h"
#include "client/library/async_calls.h"
#include "client/library/call_status.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "lion/client.h"
#include "lion/v1/lion.grpc.pb.h"

namespace lion {

struct Client::Impl {
  std::chrono::milliseconds timeout;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::LionService::Stub> stub;
  std::unique_ptr<grpc::health::v1::Health::Stub> health;
  AsyncCalls async_calls;

  void SetDeadline(const CallOptions& options, grpc::ClientContext& context) const {
    const std::chrono::milliseconds limit = options.timeout.count() > 0 ? options.timeout : timeout;
    if (limit.count() > 0) context.set_deadline(std::chrono::system_clock::now() + limit);
  }

  // One unary call: `method` is a member of `service`.
  template <typename Service, typename Request, typename Response>
  absl::StatusOr<Response> Call(Service& service,
                                grpc::Status (Service::*method)(grpc::ClientContext*, const Request&, Response*),
                                const Request& request, const CallOptions& options) const {
    grpc::ClientContext context;
    SetDeadline(options, context);
    Response response;
    const grpc::Status status = (service.*method)(&context, request, &response);
    if (!status.ok()) return ToStatus(status, context);
    return response;
  }

  // One that has a result for each input of its request.
  template <typename Request, typename Response>
  absl::StatusOr<Response> CallForEachInput(grpc::Status (v1::LionService::Stub::*method)(grpc::ClientContext*,
                                                                                          const Request&, Response*),
                                            const Request& request, const CallOptions& options) const {
    absl::StatusOr<Response> response = Call(*stub, method, request, options);
    if (!response.ok()) return response;
    absl::Status status = CheckResultCount(response->results_size(), request.inputs_size());
    if (!status.ok()) return status;
    return response;
  }
};

}  // namespace lion
