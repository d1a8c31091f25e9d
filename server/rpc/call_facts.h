// What the requests of one call or stream have in common.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/clock.h"
#include "server/request_log.h"
#include "server/rpc/trace_context.h"

namespace lion {

struct CallFacts {
  uint64_t caller = 0;  // whose share of the device it takes: its connection's
  int64_t deadline_ns = kNever;
  std::string model;                            // as of ModelInMetadata
  std::shared_ptr<const RequestOrigin> origin;  // null: its requests are not logged
};

// The deadline of a call, of the server's clock. The context's is of the system's clock: read once, so that a step of
// that clock cannot move it.
inline int64_t DeadlineNs(const grpc::CallbackServerContext& context, int64_t now_ns) {
  const std::chrono::system_clock::time_point deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return kNever;
  const std::chrono::nanoseconds left = deadline - std::chrono::system_clock::now();
  return left.count() > kNever - now_ns ? kNever : now_ns + left.count();
}

// Of a call with one `traceparent`: the standard has several count as none.
inline RequestOrigin OriginOf(const grpc::CallbackServerContext& context) {
  RequestOrigin origin = {.peer = context.peer()};
  const auto [first, last] = context.client_metadata().equal_range("traceparent");
  if (first != last && std::next(first) == last) {
    origin.trace_id = TraceIdOf({first->second.data(), first->second.size()});
  }
  return origin;
}

// For APIs whose requests name no model. Empty: the call names none.
inline std::string ModelInMetadata(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find("x-model-name");
  if (found == context.client_metadata().end()) return "";
  return {found->second.data(), found->second.size()};
}

inline CallFacts FactsOf(const grpc::CallbackServerContext& context, const RequestLog* log, int64_t now_ns) {
  CallFacts facts = {.caller = std::hash<std::string>()(context.peer()),
                     .deadline_ns = DeadlineNs(context, now_ns),
                     .model = ModelInMetadata(context)};
  if (log != nullptr) facts.origin = std::make_shared<const RequestOrigin>(OriginOf(context));
  return facts;
}

}  // namespace lion
