#include "model_loader/tensor.h"

#include <bit>
#include <cstring>

#include "model_loader/bytes.h"

namespace lion {
namespace {

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  uint32_t exponent = (half >> 10) & 0x1fu;
  uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

template <typename T>
float Plain(const uint8_t* bytes) {
  return static_cast<float>(ReadLittleEndian<T>(bytes));
}

float FromHalf(const uint8_t* bytes) { return HalfToFloat(ReadLittleEndian<uint16_t>(bytes)); }

float FromBFloat16(const uint8_t* bytes) {
  return std::bit_cast<float>(static_cast<uint32_t>(ReadLittleEndian<uint16_t>(bytes)) << 16);
}

float FromBool(const uint8_t* bytes) { return *bytes != 0 ? 1.0f : 0.0f; }

bool IsRowMajor(const TensorView& view) {
  int64_t expected = 1;
  for (size_t i = view.shape.size(); i-- > 0;) {
    if (view.shape[i] != 1 && view.strides[i] != expected) return false;
    expected *= view.shape[i];
  }
  return true;
}

// Walks the view in row-major order. Templated on the conversion so that it is inlined.
template <float (*Convert)(const uint8_t*), int64_t kSize>
void Gather(const TensorView& view, std::vector<float>& values) {
  const auto* data = static_cast<const uint8_t*>(view.data);
  const int64_t count = static_cast<int64_t>(values.size());
  if (IsRowMajor(view)) {
    for (int64_t i = 0; i < count; ++i) values[i] = Convert(data + i * kSize);
    return;
  }
  const size_t rank = view.shape.size();
  std::vector<int64_t> index(rank, 0);
  int64_t offset = 0;
  for (int64_t i = 0; i < count; ++i) {
    values[i] = Convert(data + offset * kSize);
    for (size_t d = rank; d-- > 0;) {
      offset += view.strides[d];
      if (++index[d] < view.shape[d]) break;
      offset -= view.strides[d] * view.shape[d];
      index[d] = 0;
    }
  }
}

}  // namespace

std::string_view TensorTypeName(TensorType type) {
  switch (type) {
    case TensorType::kFloat64:
      return "float64";
    case TensorType::kFloat32:
      return "float32";
    case TensorType::kFloat16:
      return "float16";
    case TensorType::kBFloat16:
      return "bfloat16";
    case TensorType::kInt64:
      return "int64";
    case TensorType::kInt32:
      return "int32";
    case TensorType::kInt16:
      return "int16";
    case TensorType::kInt8:
      return "int8";
    case TensorType::kUint8:
      return "uint8";
    case TensorType::kBool:
      return "bool";
  }
  return "?";
}

int64_t TensorTypeSize(TensorType type) {
  switch (type) {
    case TensorType::kFloat64:
    case TensorType::kInt64:
      return 8;
    case TensorType::kFloat32:
    case TensorType::kInt32:
      return 4;
    case TensorType::kFloat16:
    case TensorType::kBFloat16:
    case TensorType::kInt16:
      return 2;
    case TensorType::kInt8:
    case TensorType::kUint8:
    case TensorType::kBool:
      return 1;
  }
  return 1;
}

int64_t TensorView::elements() const {
  int64_t count = 1;
  for (int64_t n : shape) count *= n;
  return count;
}

std::vector<float> ToFloat32(const TensorView& view) {
  std::vector<float> values(static_cast<size_t>(view.elements()));
  if (values.empty()) return values;
  switch (view.type) {
    case TensorType::kFloat32:
      if (IsRowMajor(view)) {
        std::memcpy(values.data(), view.data, values.size() * sizeof(float));
      } else {
        Gather<Plain<float>, 4>(view, values);
      }
      break;
    case TensorType::kFloat64:
      Gather<Plain<double>, 8>(view, values);
      break;
    case TensorType::kFloat16:
      Gather<FromHalf, 2>(view, values);
      break;
    case TensorType::kBFloat16:
      Gather<FromBFloat16, 2>(view, values);
      break;
    case TensorType::kInt64:
      Gather<Plain<int64_t>, 8>(view, values);
      break;
    case TensorType::kInt32:
      Gather<Plain<int32_t>, 4>(view, values);
      break;
    case TensorType::kInt16:
      Gather<Plain<int16_t>, 2>(view, values);
      break;
    case TensorType::kInt8:
      Gather<Plain<int8_t>, 1>(view, values);
      break;
    case TensorType::kUint8:
      Gather<Plain<uint8_t>, 1>(view, values);
      break;
    case TensorType::kBool:
      Gather<FromBool, 1>(view, values);
      break;
  }
  return values;
}

}  // namespace lion
