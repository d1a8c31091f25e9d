#include <cmath>
#include <nlohmann/json.hpp>

#include "client/cli/bench/report.h"
#include "client/cli/names.h"
#include "client/cli/output_file.h"

namespace lion::bench {
namespace {

using Json = nlohmann::ordered_json;

Json LatencyJson(const LatencySummary& latency) {
  Json json;
  json["count"] = latency.count;
  if (latency.count == 0) return json;
  json["mean_ns"] = std::llround(latency.mean_ns);
  for (size_t i = 0; i < kPercentiles.size(); ++i) {
    Json& value = json[std::string(kPercentiles[i].name) + "_ns"];
    if (latency.percentiles_ns[i].has_value()) value = *latency.percentiles_ns[i];
  }
  json["max_ns"] = latency.max_ns;
  return json;
}

Json SetupJson(const BenchFlags& flags, const v1::Model& model) {
  Json json;
  json["server"] = flags.server.address;
  json["model"] = model.name();
  json["model_version"] = model.version();
  json["variant"] = model.variant();
  json["device"] = model.device();
  json["compute_type"] = model.compute_type();
  json["call"] = CallKindName(flags.call);
  json["loop"] = flags.rate > 0 ? "open" : "closed";
  if (flags.rate > 0) {
    json["rate"] = flags.rate;
    json["arrivals"] = flags.poisson ? "poisson" : "constant";
    json["max_in_flight"] = flags.max_in_flight;
  } else {
    json["concurrency"] = flags.concurrency;
  }
  if (flags.requests > 0) {
    json["requests"] = flags.requests;
  } else {
    json["duration_s"] = flags.duration_s;
  }
  json["warm_up_s"] = flags.warm_up_s;
  json["connections"] = flags.connections;
  json["inputs_per_call"] = flags.inputs_per_call;
  json["format"] = ImageFormatName(flags.format);
  if (flags.format != ImageFormat::kPixels) json["resize"] = ResizeText(flags.resize);
  json["priority"] = flags.priority;
  json["timeout_ms"] = flags.server.timeout_ms;
  json["seed"] = flags.seed;
  return json;
}

Json CallsJson(const Summary& summary) {
  Json json;
  json["scheduled"] = summary.scheduled;
  json["sent"] = summary.sent;
  json["succeeded"] = summary.succeeded;
  json["failed"] = summary.failed;
  json["not_sent_in_flight"] = summary.not_sent_in_flight;
  json["not_sent_late"] = summary.not_sent_late;
  json["cut_off"] = summary.cut_off;
  json["warm_up"] = summary.warm_up_calls;
  return json;
}

Json RatesJson(const Summary& summary) {
  Json json;
  json["arrived"] = summary.arrived;
  json["answered"] = summary.answered;
  json["images"] = summary.images;
  json["tokens"] = summary.tokens;
  json["sent_bytes"] = summary.sent_bytes;
  return json;
}

Json LatenciesJson(const Summary& summary) {
  Json json;
  json["from_schedule"] = LatencyJson(summary.from_schedule);
  json["from_send"] = LatencyJson(summary.from_send);
  json["server_total"] = LatencyJson(summary.server_total);
  json["server_preprocess"] = LatencyJson(summary.server_preprocess);
  json["server_queue"] = LatencyJson(summary.server_queue);
  json["server_compute"] = LatencyJson(summary.server_compute);
  json["outside_server"] = LatencyJson(summary.outside_server);
  json["send_lag"] = LatencyJson(summary.send_lag);
  return json;
}

}  // namespace

std::string ReportJson(const BenchFlags& flags, const v1::Model& model, const Summary& summary) {
  Json json;
  json["setup"] = SetupJson(flags, model);
  json["window_s"] = summary.window_s;
  json["ended_early"] = summary.ended_early;
  json["calls"] = CallsJson(summary);
  json["per_second"] = RatesJson(summary);
  json["batch_inputs"] = summary.batch_inputs.has_value() ? Json(*summary.batch_inputs) : Json();
  json["latency"] = LatenciesJson(summary);
  json["sizes"] = Json::array();
  for (const SizeSummary& size : summary.sizes) {
    Json entry;
    entry["width"] = size.size.width;
    entry["height"] = size.size.height;
    entry["share"] = size.size.share;
    entry["tokens_per_image"] = size.tokens_per_image;
    entry["latency"] = LatencyJson(size.latency);
    entry["server_total"] = LatencyJson(size.server_total);
    json["sizes"].push_back(std::move(entry));
  }
  json["errors"] = Json::array();
  for (const FailureSummary& failures : summary.failures) {
    Json entry;
    entry["code"] = absl::StatusCodeToString(failures.example.code());
    entry["count"] = failures.from_send.count;
    entry["message"] = std::string(failures.example.message());
    entry["from_send"] = LatencyJson(failures.from_send);
    json["errors"].push_back(std::move(entry));
  }
  json["warnings"] = summary.warnings;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status WriteReport(const std::string& path, const std::string& json) {
  auto file = OutputFile::Open(path);
  if (!file.ok()) return file.status();
  const absl::Status status = (*file)->Write(json + "\n");
  return status.ok() ? (*file)->Commit() : status;
}

}  // namespace lion::bench
