#include "engine/speed.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/product_limit.h"

namespace lion {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

absl::StatusOr<int64_t> CountTokens(const Engine& engine, std::span<const Request> requests) {
  int64_t tokens = 0;
  for (const Request& request : requests) {
    if (engine.config().modality == Modality::kText) {
      tokens += static_cast<int64_t>(request.text.ids.size());
      continue;
    }
    absl::StatusOr<int64_t> of_image = engine.CountTokens(request.image.height, request.image.width);
    if (!of_image.ok()) return of_image.status();
    tokens += *of_image;
  }
  return tokens;
}

absl::Status Forward(Engine& engine, std::span<const Request> requests, std::vector<Result>& results) {
  try {
    absl::Status status = engine.Forward(requests, results);
    for (const Result& result : results) status.Update(result.status);
    return status;
  } catch (const std::exception& error) {
    return absl::InternalError(std::string("the forward pass failed: ") + error.what());
  }
}

}  // namespace

absl::StatusOr<Speed> MeasureSpeed(Engine& engine, std::span<const Request> requests, const SpeedOptions& options) try {
  const ModelConfig& config = engine.config();
  absl::StatusOr<int64_t> tokens = CountTokens(engine, requests);
  if (!tokens.ok()) return tokens.status();
  const DataType type = engine.compute_type() == ComputeType::kBFloat16 ? DataType::kBFloat16 : DataType::kFloat32;
  std::vector<std::unique_ptr<cpu::ProductLimit>> limits;
  for (const int64_t tile_rows : {64, 128, 256, 512}) {
    // A tile that is mostly empty is no limit.
    if (tile_rows > 64 && tile_rows > 2 * *tokens) continue;
    limits.push_back(std::make_unique<cpu::ProductLimit>(
        cpu::ProductShape{config.width, config.mlp_width, config.depth, *tokens}, tile_rows, type, engine.threads()));
  }
  std::vector<Result> results(requests.size());
  if (absl::Status status = Forward(engine, requests, results); !status.ok()) return status;
  for (const auto& limit : limits) limit->Run();

  std::vector<double> forward_s;
  std::vector<std::vector<double>> limit_s(limits.size());
  const Clock::time_point begin = Clock::now();
  while (static_cast<int>(forward_s.size()) < std::max(1, options.repeats)) {
    const Clock::time_point start = Clock::now();
    if (absl::Status status = Forward(engine, requests, results); !status.ok()) return status;
    forward_s.push_back(SecondsSince(start));
    for (size_t i = 0; i < limits.size(); ++i) {
      const Clock::time_point limit_start = Clock::now();
      limits[i]->Run();
      limit_s[i].push_back(SecondsSince(limit_start));
    }
    if (SecondsSince(begin) > options.budget_s) break;
  }
  Speed speed = {.tokens = *tokens,
                 .forward_s = Median(forward_s),
                 .limit_s = std::numeric_limits<double>::infinity(),
                 .repeats = static_cast<int>(forward_s.size())};
  for (const std::vector<double>& seconds : limit_s) speed.limit_s = std::min(speed.limit_s, Median(seconds));
  return speed;
} catch (const std::exception& error) {
  return absl::InternalError(std::string("the matrix products alone failed: ") + error.what());
}

}  // namespace lion
