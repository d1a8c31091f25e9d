#include "model_loader/parameter_reader.h"

#include <algorithm>
#include <cmath>

#include "model_loader/bytes.h"

namespace lion {
namespace {

void AppendList(std::string& text, const std::string& what, const std::vector<std::string>& items) {
  if (items.empty()) return;
  text += Concat(text.empty() ? "" : "; ", items.size(), " ", what, ": ");
  for (size_t i = 0; i < items.size(); ++i) text += (i > 0 ? ", " : "") + items[i];
}

bool SameValues(const std::vector<float>& a, const std::vector<float>& b) {
  const auto same = [](float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

}  // namespace

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text;
  for (int64_t n : shape) text += Concat(text.empty() ? "" : ", ", n);
  return "[" + text + "]";
}

TensorView ParameterReader::Take(const std::string& name, const std::vector<int64_t>& shape) {
  seen_.insert(name);
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    missing_.push_back(name + " " + ShapeText(shape));
    return {};
  }
  const TensorView& tensor = found->second;
  if (tensor.shape != shape) {
    misshapen_.push_back(Concat(name, " is ", ShapeText(tensor.shape), ", expected ", ShapeText(shape)));
    return {};
  }
  parameters_ += tensor.elements();
  return tensor;
}

LinearWeights ParameterReader::TakeLinear(const std::string& name, int64_t out, int64_t in) {
  return {Take(name + ".weight", {out, in}), Take(name + ".bias", {out})};
}

NormWeights ParameterReader::TakeNorm(const std::string& name, int64_t width) {
  return {Take(name + ".weight", {width}), Take(name + ".bias", {width})};
}

void ParameterReader::TakeDuplicate(const std::string& name, const std::string& original) {
  seen_.insert(name);
  const auto found = tensors_.find(name), other = tensors_.find(original);
  if (found == tensors_.end() || other == tensors_.end()) return;
  const TensorView &a = found->second, &b = other->second;
  if (a.shape == b.shape && SameValues(ToFloat32(a), ToFloat32(b))) return;
  contradictory_.push_back(Concat(name, " ", ShapeText(a.shape), " and ", original, " ", ShapeText(b.shape),
                                  " are one parameter, but differ"));
}

void ParameterReader::Ignore(const std::string& name) { seen_.insert(name); }

absl::Status ParameterReader::Finish(const std::function<bool(const std::string&)>& may_drop,
                                     std::vector<std::string>* dropped) const {
  std::vector<std::string> unexpected;
  for (const auto& [name, tensor] : tensors_) {
    if (seen_.contains(name)) continue;
    if (may_drop(name)) {
      dropped->push_back(name);
    } else {
      unexpected.push_back(name + " " + ShapeText(tensor.shape));
    }
  }
  std::string text;
  AppendList(text, "missing", missing_);
  AppendList(text, "unexpected", unexpected);
  AppendList(text, "misshapen", misshapen_);
  AppendList(text, "contradictory", contradictory_);
  if (text.empty()) return absl::OkStatus();
  return InvalidFile("the tensors do not fit the architecture: ", text);
}

}  // namespace lion
