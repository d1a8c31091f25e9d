// The report of `lion inspect`.
#include <array>
#include <cstdio>

#include "model_loader/bytes.h"
#include "model_loader/load_steps.h"
#include "model_loader/parameter_reader.h"

namespace lion {
namespace {

// 1234567 -> "1,234,567".
std::string Grouped(int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

std::string Megabytes(int64_t bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text.data();
}

void Line(std::string& text, const std::string& key, const std::string& value, const std::string& origin = "") {
  text += key + std::string(key.size() < 20 ? 20 - key.size() : 0, ' ') + " " + value;
  if (!origin.empty()) text += std::string(value.size() < 20 ? 20 - value.size() : 0, ' ') + "  from " + origin;
  text += "\n";
}

void AppendTensors(const Checkpoint& checkpoint, std::string& text) {
  struct Sum {
    int64_t tensors = 0, elements = 0, bytes = 0;
  };
  std::map<TensorType, Sum> sums;
  Sum all;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    for (Sum* sum : {&sums[tensor.type], &all}) {
      ++sum->tensors;
      sum->elements += tensor.elements();
      sum->bytes += tensor.elements() * TensorTypeSize(tensor.type);
    }
  }
  for (const auto& [type, sum] : sums) {
    Line(text, Concat("  ", TensorTypeName(type)),
         Concat(sum.tensors, " tensors, ", Grouped(sum.elements), " elements, ", Megabytes(sum.bytes)));
  }
  Line(text, "  in all", Concat(all.tensors, " tensors, ", Grouped(all.elements), " elements, ", Megabytes(all.bytes)));
}

}  // namespace

InspectReport InspectModel(const std::string& path, const LoadOptions& options) {
  Checkpoint checkpoint;
  LoadedModel model;
  const absl::Status status = LoadInto(path, options, checkpoint, model);
  InspectReport report;
  report.ok = status.ok();
  std::string& text = report.text;
  Line(text, "file", model.file);
  if (!model.format.empty()) Line(text, "format", model.format);
  if (model.file_bytes > 0) Line(text, "file size", Concat(Megabytes(model.file_bytes)));
  if (!model.weights.empty()) Line(text, "weights", model.weights, "a file that holds both model and ema");
  if (!model.stripped_prefix.empty()) Line(text, "prefix", model.stripped_prefix, "every tensor's name; stripped");
  if (!checkpoint.tensors.empty()) {
    text += "\ntensors\n";
    AppendTensors(checkpoint, text);
  }
  if (!model.provenance.empty()) {
    text += "\narchitecture\n";
    if (status.ok())
      Line(text, "  modality", model.config.modality == Modality::kVision ? "vision" : "text", "the tensors");
    for (const Provenance& value : model.provenance) Line(text, "  " + value.key, value.value, value.origin);
  }
  if (status.ok()) {
    text += "\nmemory for the weights\n";
    Line(text, "  parameters", Grouped(model.parameters));
    Line(text, "  in float32", Megabytes(model.parameters * 4));
    Line(text, "  in bfloat16", Megabytes(model.parameters * 2));
  }
  if (!model.warnings.empty()) text += "\nwarnings\n";
  for (const std::string& warning : model.warnings) text += "  " + warning + "\n";
  text +=
      status.ok() ? "\nno tensor is missing, unexpected or misshapen\n" : Concat("\nerror\n  ", status.message(), "\n");
  return report;
}

}  // namespace lion
