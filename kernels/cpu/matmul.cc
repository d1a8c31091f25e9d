#include "kernels/cpu/matmul.h"

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lion::cpu {
namespace {

const dnnl::engine& Engine() {
  static const dnnl::engine* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

dnnl::memory::data_type DnnlType(DataType type) {
  return type == DataType::kFloat32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

dnnl::matmul::primitive_desc MakeDescription(const dnnl::memory::desc& source, const dnnl::memory::desc& weights,
                                             const dnnl::memory::desc& target) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul::primitive_desc(Engine(), source, weights, target, attributes);
#else
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(source, weights, target), attributes, Engine());
#endif
}

}  // namespace

struct Matmul::Impl {
  DataType type;
  std::vector<float> bias;
  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;
  dnnl::memory weights;
};

Matmul::Matmul(std::unique_ptr<Impl> impl, const LinearPack& pack, int64_t bytes)
    : PackedLinear(pack.inputs, pack.outputs, bytes), impl_(std::move(impl)) {}
Matmul::~Matmul() = default;

absl::StatusOr<std::unique_ptr<Matmul>> Matmul::Create(const LinearPack& pack) {
  using Tag = dnnl::memory::format_tag;
  const DataType type = pack.compute_type;
  auto impl = std::make_unique<Impl>();
  impl->type = type;
  impl->bias.assign((pack.outputs + 15) / 16 * 16, 0.0f);
  if (pack.bias != nullptr) std::memcpy(impl->bias.data(), pack.bias, pack.outputs * sizeof(float));
  try {
    const dnnl::memory::desc source({kRowTile, pack.inputs}, DnnlType(type), Tag::ab);
    const dnnl::memory::desc weights({pack.inputs, pack.outputs}, DnnlType(type), Tag::any);
    const dnnl::memory::desc target({kRowTile, pack.outputs}, dnnl::memory::data_type::f32, Tag::ab);
    impl->description = MakeDescription(source, weights, target);
    impl->primitive = dnnl::matmul(impl->description);
    impl->weights = dnnl::memory(impl->description.weights_desc(), Engine());
    // [outputs, inputs] row-major is [inputs, outputs] with the strides of format ba.
    dnnl::memory plain({{pack.inputs, pack.outputs}, dnnl::memory::data_type::f32, Tag::ba}, Engine(),
                       const_cast<float*>(pack.weight));
    dnnl::stream stream(Engine());
    dnnl::reorder(plain, impl->weights).execute(stream, plain, impl->weights);
    stream.wait();
  } catch (const dnnl::error& error) {
    const std::string what = absl::StrCat("oneDNN: ", error.message, " (", pack.inputs, " x ", pack.outputs, ", ",
                                          type == DataType::kFloat32 ? "float32" : "bfloat16", ")");
    if (error.status == dnnl_unimplemented) return absl::UnimplementedError(what);
    return absl::InternalError(what);
  }
  const int64_t bytes = static_cast<int64_t>(impl->description.weights_desc().get_size() + impl->bias.size() * 4);
  return std::unique_ptr<Matmul>(new Matmul(std::move(impl), pack, bytes));
}

DataType Matmul::compute_type() const { return impl_->type; }
const float* Matmul::bias() const { return impl_->bias.data(); }
int64_t Matmul::scratch_bytes() const { return static_cast<int64_t>(impl_->description.scratchpad_desc().get_size()); }

absl::Status Matmul::Run(const void* input, float* output, void* scratch) const {
  try {
    thread_local dnnl::stream stream(Engine());
    const dnnl::memory source(impl_->description.src_desc(), Engine(), const_cast<void*>(input));
    const dnnl::memory target(impl_->description.dst_desc(), Engine(), output);
    const dnnl::memory pad(impl_->description.scratchpad_desc(), Engine(), scratch);
    impl_->primitive.execute(stream, {{DNNL_ARG_SRC, source},
                                      {DNNL_ARG_WEIGHTS, impl_->weights},
                                      {DNNL_ARG_DST, target},
                                      {DNNL_ARG_SCRATCHPAD, pad}});
    return absl::OkStatus();
  } catch (const dnnl::error& error) {
    return absl::InternalError(absl::StrCat("oneDNN product failed: ", error.message));
  }
}

absl::Status LimitMatmulIsa(const char* isa) {
  static const std::string* limit = nullptr;
  if (limit != nullptr) {
    if (*limit == isa) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("this process already uses the instruction set '", *limit, "', asked for '", isa, "'"));
  }
  const std::string name = isa;
  dnnl::status status = dnnl::status::success;
  if (name == "scalar") status = dnnl::set_max_cpu_isa(dnnl::cpu_isa::sse41);
  if (name == "avx2") status = dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
  if (name == "avx512") status = dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);
  if (status != dnnl::status::success) {
    return absl::FailedPreconditionError(absl::StrCat("oneDNN cannot be limited to '", isa, "' any more"));
  }
  limit = new std::string(name);
  return absl::OkStatus();
}

}  // namespace lion::cpu
