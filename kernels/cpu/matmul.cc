#include "kernels/cpu/matmul.h"

#include <algorithm>
#include <compare>
#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <utility>
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

dnnl::matmul::primitive_desc Describe(const dnnl::memory::desc& source, const dnnl::memory::desc& weights,
                                      const dnnl::memory::desc& bias, const dnnl::memory::desc& target, bool add) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (add) {
    dnnl::post_ops after;
    after.append_sum(1.0f);
    attributes.set_post_ops(after);
  }
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul::primitive_desc(Engine(), source, weights, bias, target, attributes);
#else
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(source, weights, bias, target), attributes, Engine());
#endif
}

// The arguments of one thread's calls of one shape: making them anew costs as much as a small product.
struct Arguments {
  dnnl::memory source, target, scratch;
};

// What tells the arguments of two products apart.
struct ArgumentShape {
  int64_t inputs, outputs, scratch_bytes;
  DataType source, target;
  auto operator<=>(const ArgumentShape&) const = default;
};

// A number for each shape: few, whatever the number of layers and of reloads.
size_t ShapeNumber(const ArgumentShape& shape) {
  static std::mutex mutex;
  static auto* const numbers = new std::map<ArgumentShape, size_t>;
  std::lock_guard<std::mutex> lock(mutex);
  return numbers->try_emplace(shape, numbers->size()).first->second;
}

// One way to end the product.
struct Ending {
  dnnl::matmul primitive;
  dnnl::memory::desc source, target, scratch;
  size_t shape_number = 0;

  Arguments& OfThisThread() const {
    thread_local std::vector<std::unique_ptr<Arguments>> all;
    if (shape_number >= all.size()) all.resize(shape_number + 1);
    std::unique_ptr<Arguments>& arguments = all[shape_number];
    if (arguments == nullptr) {
      const auto memory = [](const dnnl::memory::desc& desc) { return dnnl::memory(desc, Engine(), nullptr); };
      arguments = std::make_unique<Arguments>(Arguments{memory(source), memory(target), memory(scratch)});
    }
    return *arguments;
  }
};

}  // namespace

struct Matmul::Impl {
  DataType type;
  int64_t scratch_bytes = 0;
  dnnl::memory weights;
  dnnl::memory bias;
  std::array<Ending, kEpilogues> endings;

  // Throws dnnl::error. `pack`: without a tail.
  explicit Impl(const LinearPack& pack) : type(pack.compute_type) {
    using Tag = dnnl::memory::format_tag;
    const dnnl::memory::desc source({kRowTile, pack.inputs}, DnnlType(type), Tag::ab);
    dnnl::memory::desc packed({pack.inputs, pack.outputs}, DnnlType(type), Tag::any);
    const dnnl::memory::desc added({1, pack.outputs}, dnnl::memory::data_type::f32, Tag::ab);
    for (const Epilogue epilogue : {Epilogue::kBias, Epilogue::kBiasCompute, Epilogue::kBiasAdd}) {
      const DataType out = epilogue == Epilogue::kBiasCompute ? type : DataType::kFloat32;
      const dnnl::memory::desc target({kRowTile, pack.outputs}, DnnlType(out), Tag::ab);
      const auto description = Describe(source, packed, added, target, epilogue == Epilogue::kBiasAdd);
      packed = description.weights_desc();  // the first says how
      const dnnl::memory::desc scratch = description.scratchpad_desc();
      const auto bytes = static_cast<int64_t>(scratch.get_size());
      scratch_bytes = std::max(scratch_bytes, bytes);
      endings[static_cast<size_t>(epilogue)] = {dnnl::matmul(description), source, target, scratch,
                                                ShapeNumber({pack.inputs, pack.outputs, bytes, type, out})};
    }
    weights = dnnl::memory(packed, Engine());
    bias = dnnl::memory(added, Engine());
    auto* const values = static_cast<float*>(bias.get_data_handle());
    std::fill_n(values, pack.outputs, 0.0f);
    if (pack.bias != nullptr) std::copy_n(pack.bias, pack.outputs, values);
    // [outputs, inputs] row-major is [inputs, outputs] with the strides of format ba.
    dnnl::memory plain({{pack.inputs, pack.outputs}, dnnl::memory::data_type::f32, Tag::ba}, Engine(),
                       const_cast<float*>(pack.weight));
    dnnl::stream stream(Engine());
    dnnl::reorder(plain, weights).execute(stream, plain, weights);
    stream.wait();
  }
};

Matmul::Matmul(std::unique_ptr<Impl> impl, std::unique_ptr<Matmul> tail, const LinearPack& pack, int64_t bytes)
    : PackedLinear(pack.inputs, pack.outputs, bytes), impl_(std::move(impl)), tail_(std::move(tail)) {}
Matmul::~Matmul() = default;

absl::StatusOr<std::unique_ptr<Matmul>> Matmul::Create(const LinearPack& pack) try {
  LinearPack body = pack;
  body.tail_outputs = 0;
  body.outputs -= pack.tail_outputs;
  std::unique_ptr<Matmul> tail;
  if (pack.tail_outputs > 0) {
    LinearPack rest = body;
    rest.outputs = pack.tail_outputs;
    rest.weight += body.outputs * pack.inputs;
    if (rest.bias != nullptr) rest.bias += body.outputs;
    absl::StatusOr<std::unique_ptr<Matmul>> made = Create(rest);
    if (!made.ok()) return made.status();
    tail = *std::move(made);
  }
  auto impl = std::make_unique<Impl>(body);
  const int64_t bytes = static_cast<int64_t>(impl->weights.get_desc().get_size() + impl->bias.get_desc().get_size()) +
                        (tail == nullptr ? 0 : tail->bytes());
  return std::unique_ptr<Matmul>(new Matmul(std::move(impl), std::move(tail), pack, bytes));
} catch (const dnnl::error& error) {
  const std::string what = absl::StrCat("oneDNN: ", error.message, " (", pack.inputs, " x ", pack.outputs, ", ",
                                        pack.compute_type == DataType::kFloat32 ? "float32" : "bfloat16", ")");
  if (error.status == dnnl_unimplemented) return absl::UnimplementedError(what);
  return absl::InternalError(what);
}

DataType Matmul::compute_type() const { return impl_->type; }
int64_t Matmul::scratch_bytes() const {
  return std::max(impl_->scratch_bytes, tail_ == nullptr ? 0 : tail_->scratch_bytes());
}

absl::Status Matmul::Run(Epilogue epilogue, const void* input, void* output, void* scratch) const {
  const Ending& ending = impl_->endings[static_cast<size_t>(epilogue)];
  try {
    thread_local const dnnl::stream stream(Engine());
    Arguments& use = ending.OfThisThread();
    use.source.set_data_handle(const_cast<void*>(input));
    use.target.set_data_handle(output);
    use.scratch.set_data_handle(scratch);
    // The C function: the C++ one builds a hash table first.
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, use.source.get()},
                                         {DNNL_ARG_WEIGHTS, impl_->weights.get()},
                                         {DNNL_ARG_BIAS, impl_->bias.get()},
                                         {DNNL_ARG_DST, use.target.get()},
                                         {DNNL_ARG_SCRATCHPAD, use.scratch.get()}};
    dnnl::error::wrap_c_api(dnnl_primitive_execute(ending.primitive.get(), stream.get(), 5, arguments),
                            "could not execute a product");
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
