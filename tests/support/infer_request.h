// ModelInfer requests and responses, as Triton's clients make and read them.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "inference/inference.pb.h"

namespace lion::testing {

// Elements of BYTES in raw form: each behind its length.
inline std::string RawBytes(const std::vector<std::string>& elements) {
  std::string raw;
  for (const std::string& element : elements) {
    const auto length = static_cast<uint32_t>(element.size());
    raw.append(reinterpret_cast<const char*>(&length), sizeof(length));
    raw += element;
  }
  return raw;
}

template <class Value>
std::string Raw(const std::vector<Value>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value)};
}

// An input without its elements.
inline inference::ModelInferRequest::InferInputTensor* AddInput(const std::string& name, const std::string& datatype,
                                                                const std::vector<int64_t>& shape,
                                                                inference::ModelInferRequest* request) {
  auto* const input = request->add_inputs();
  input->set_name(name);
  input->set_datatype(datatype);
  input->mutable_shape()->Add(shape.begin(), shape.end());
  return input;
}

inline void AddRaw(const std::string& name, const std::string& datatype, const std::vector<int64_t>& shape,
                   const std::string& raw, inference::ModelInferRequest* request) {
  AddInput(name, datatype, shape, request);
  request->add_raw_input_contents(raw);
}

inline inference::ModelInferRequest TextsRequest(const std::vector<std::string>& texts) {
  inference::ModelInferRequest request;
  AddRaw("text", "BYTES", {static_cast<int64_t>(texts.size()), 1}, RawBytes(texts), &request);
  return request;
}

// The place of an output in the response; throws where there is none.
inline int PlaceOf(const std::string& name, const inference::ModelInferResponse& response) {
  for (int i = 0; i < response.outputs_size(); ++i) {
    if (response.outputs(i).name() == name) return i;
  }
  throw std::out_of_range("no output " + name);
}

inline std::vector<int64_t> ShapeOf(const std::string& name, const inference::ModelInferResponse& response) {
  const auto& shape = response.outputs(PlaceOf(name, response)).shape();
  return {shape.begin(), shape.end()};
}

template <class Value>
std::vector<Value> ValuesOf(const std::string& name, const inference::ModelInferResponse& response) {
  const std::string& raw = response.raw_output_contents(PlaceOf(name, response));
  std::vector<Value> values(raw.size() / sizeof(Value));
  std::memcpy(values.data(), raw.data(), values.size() * sizeof(Value));
  return values;
}

inline std::vector<std::string> BytesOf(const std::string& name, const inference::ModelInferResponse& response) {
  const std::string& raw = response.raw_output_contents(PlaceOf(name, response));
  std::vector<std::string> elements;
  for (size_t at = 0; at < raw.size();) {
    uint32_t length = 0;
    std::memcpy(&length, raw.substr(at, sizeof(length)).c_str(), sizeof(length));
    at += sizeof(length);
    elements.push_back(raw.substr(at, length));
    at += length;
  }
  return elements;
}

}  // namespace lion::testing
