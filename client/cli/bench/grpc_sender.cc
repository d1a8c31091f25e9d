#include "client/cli/bench/grpc_sender.h"

#include <utility>

namespace lion::bench {
namespace {

template <typename Response>
Answer Convert(const absl::StatusOr<Response>& response) {
  Answer answer;
  answer.status = response.status();
  if (!response.ok()) return answer;
  for (const auto& result : response->results()) {
    if (result.has_error()) {
      answer = {};
      answer.status = absl::Status(static_cast<absl::StatusCode>(result.error().code()), result.error().message());
      if (answer.status.ok()) answer.status = absl::InternalError("the server sent an error with code 0 (OK)");
      return answer;
    }
    ++answer.images;
    answer.tokens += result.tokens();
  }
  if (!response->has_timing()) return answer;
  const v1::Timing& timing = response->timing();
  answer.timing = {static_cast<int64_t>(timing.total_ns()), static_cast<int64_t>(timing.queue_ns()),
                   static_cast<int64_t>(timing.preprocess_ns()), static_cast<int64_t>(timing.compute_ns()),
                   timing.batch_inputs()};
  return answer;
}

}  // namespace

Answer ToAnswer(const absl::StatusOr<v1::EmbedResponse>& response) { return Convert(response); }
Answer ToAnswer(const absl::StatusOr<v1::ClassifyResponse>& response) { return Convert(response); }

GrpcSender::GrpcSender(std::vector<std::unique_ptr<Client>> clients, std::vector<std::vector<PreparedRequest>> requests)
    : requests_(std::move(requests)), next_variant_(requests_.size(), 0), clients_(std::move(clients)) {}

int64_t GrpcSender::Send(size_t size, std::function<void(Answer)> done) {
  const std::vector<PreparedRequest>& variants = requests_[size];
  const PreparedRequest& request = variants[next_variant_[size]++ % variants.size()];
  Client& client = *clients_[next_client_++ % clients_.size()];
  if (const auto* embed = std::get_if<Prepared<v1::EmbedRequest>>(&request)) {
    client.EmbedAsync(*embed, {}, [done = std::move(done)](const auto& response) { done(ToAnswer(response)); });
    return embed->bytes();
  }
  const auto& classify = std::get<Prepared<v1::ClassifyRequest>>(request);
  client.ClassifyAsync(classify, {}, [done = std::move(done)](const auto& response) { done(ToAnswer(response)); });
  return classify.bytes();
}

void GrpcSender::Cancel() {
  for (const auto& client : clients_) client->CancelAsyncCalls();
}

}  // namespace lion::bench
