#include "kernels/cpu/matmul.h"

#include <algorithm>
#include <array>
#include <compare>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <random>
#include <string>
#include <tuple>
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
  int64_t height, inputs, outputs, scratch_bytes;
  DataType source, target;
  auto operator<=>(const ArgumentShape&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy's error
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
  std::array<std::array<Ending, kTileHeights>, kEpilogues> endings;
  int64_t row_step = kRowTile;

  // Throws dnnl::error. `pack`: without a tail.
  explicit Impl(const LinearPack& pack) : type(pack.compute_type) {
    using Tag = dnnl::memory::format_tag;
    dnnl::memory::desc packed({pack.inputs, pack.outputs}, DnnlType(type), Tag::any);
    const dnnl::memory::desc added({1, pack.outputs}, dnnl::memory::data_type::f32, Tag::ab);
    bool has_lower_tiles = true;
    for (size_t ending = 0; ending < kEpilogues; ++ending) {
      // The highest tile first: it says how the weights lie.
      for (int64_t height = kRowTile; height > 0; height -= kRowStep) {
        try {
          endings[ending][height / kRowStep - 1] =
              MakeEnding(pack, static_cast<Epilogue>(ending), height, added, &packed);
        } catch (const dnnl::error& error) {
          if (height == kRowTile || error.status != dnnl_unimplemented) throw;
          has_lower_tiles = false;
        }
      }
    }
    weights = dnnl::memory(packed, Engine());
    bias = dnnl::memory(added, Engine());
    auto* const values = static_cast<float*>(bias.get_data_handle());
    std::fill_n(values, pack.outputs, 0.0f);
    if (pack.bias != nullptr) std::copy_n(pack.bias, pack.outputs, values);
    Reorder(pack, pack.weight, weights);
    if (has_lower_tiles) row_step = RowStepOf(pack);
  }

  // `packed`: how the weights lie; settled if it is not yet.
  Ending MakeEnding(const LinearPack& pack, Epilogue epilogue, int64_t height, const dnnl::memory::desc& added,
                    dnnl::memory::desc* packed) {
    using Tag = dnnl::memory::format_tag;
    const DataType out = epilogue == Epilogue::kBiasCompute ? type : DataType::kFloat32;
    const dnnl::memory::desc source({height, pack.inputs}, DnnlType(type), Tag::ab);
    const dnnl::memory::desc target({height, pack.outputs}, DnnlType(out), Tag::ab);
    const auto description = Describe(source, *packed, added, target, epilogue == Epilogue::kBiasAdd);
    *packed = description.weights_desc();
    const dnnl::memory::desc scratch = description.scratchpad_desc();
    const auto bytes = static_cast<int64_t>(scratch.get_size());
    scratch_bytes = std::max(scratch_bytes, bytes);
    return {dnnl::matmul(description), source, target, scratch,
            ShapeNumber({height, pack.inputs, pack.outputs, bytes, type, out})};
  }

  static void Reorder(const LinearPack& pack, const float* from, const dnnl::memory& to) {
    // [outputs, inputs] row-major is [inputs, outputs] with the strides of format ba.
    dnnl::memory plain({{pack.inputs, pack.outputs}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ba},
                       Engine(), const_cast<float*>(from));
    dnnl::stream stream(Engine());
    dnnl::memory target = to;
    dnnl::reorder(plain, target).execute(stream, plain, target);
    stream.wait();
  }

  void Run(const dnnl::memory& use_weights, Epilogue epilogue, int64_t height, const void* input, void* output,
           void* scratch) const {
    const Ending& ending = endings[static_cast<size_t>(epilogue)][height / kRowStep - 1];
    thread_local const dnnl::stream stream(Engine());
    Arguments& use = ending.OfThisThread();
    use.source.set_data_handle(const_cast<void*>(input));
    use.target.set_data_handle(output);
    use.scratch.set_data_handle(scratch);
    // The C function: the C++ one builds a hash table first.
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, use.source.get()},
                                         {DNNL_ARG_WEIGHTS, use_weights.get()},
                                         {DNNL_ARG_BIAS, bias.get()},
                                         {DNNL_ARG_DST, use.target.get()},
                                         {DNNL_ARG_SCRATCHPAD, use.scratch.get()}};
    dnnl::error::wrap_c_api(dnnl_primitive_execute(ending.primitive.get(), stream.get(), 5, arguments),
                            "could not execute a product");
  }

  // Settled once for each shape, by trying.
  int64_t RowStepOf(const LinearPack& pack) const {
    static std::mutex mutex;
    static auto* const known = new std::map<std::tuple<int64_t, int64_t, DataType>, int64_t>;
    std::lock_guard<std::mutex> lock(mutex);
    const auto [entry, is_new] = known->try_emplace({pack.inputs, pack.outputs, type}, kRowTile);
    if (is_new && RowsAreTheSameInAllHeights(pack)) entry->second = kRowStep;
    return entry->second;
  }

  // With weights and inputs of no pattern: sums that were formed in another order would differ in many a last bit.
  bool RowsAreTheSameInAllHeights(const LinearPack& pack) const {
    std::minstd_rand random(1);
    const auto draw = [&random] { return static_cast<float>(random()) / 1.1e9f - 1.0f; };
    std::vector<float> some(static_cast<size_t>(pack.inputs * pack.outputs));
    std::generate(some.begin(), some.end(), draw);
    const dnnl::memory trial(weights.get_desc(), Engine());
    Reorder(pack, some.data(), trial);
    const int64_t element = DataTypeSize(type), row_bytes = pack.inputs * element;
    std::vector<std::byte> input(static_cast<size_t>(kRowTile * row_bytes));
    for (int64_t i = 0; i < kRowTile * pack.inputs; ++i) {
      const float value = draw();
      if (type == DataType::kFloat32) {
        std::memcpy(input.data() + i * element, &value, sizeof(value));
      } else {
        const uint16_t bits = ToBFloat16(value);
        std::memcpy(input.data() + i * element, &bits, sizeof(bits));
      }
    }
    const std::unique_ptr<std::byte, void (*)(void*)> scratch(
        static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>((scratch_bytes + 127) / 64 * 64))),
        std::free);
    if (scratch == nullptr) return false;
    for (size_t ending = 0; ending < kEpilogues; ++ending) {
      const auto epilogue = static_cast<Epilogue>(ending);
      const int64_t out_bytes = pack.outputs * (epilogue == Epilogue::kBiasCompute ? element : 4);
      std::vector<std::byte> whole(static_cast<size_t>(kRowTile * out_bytes));
      Run(trial, epilogue, kRowTile, input.data(), whole.data(), scratch.get());
      for (int64_t height = kRowStep; height < kRowTile; height += kRowStep) {
        // The last rows of the whole tile, as a tile of their own.
        const int64_t first = kRowTile - height;
        std::vector<std::byte> part(static_cast<size_t>(height * out_bytes));
        Run(trial, epilogue, height, input.data() + first * row_bytes, part.data(), scratch.get());
        if (std::memcmp(part.data(), whole.data() + first * out_bytes, part.size()) != 0) return false;
      }
    }
    return true;
  }
};

Matmul::Matmul(std::unique_ptr<Impl> impl, std::unique_ptr<Matmul> tail, const LinearPack& pack, int64_t bytes)
    : PackedLinear(pack.inputs, pack.outputs, bytes),
      impl_(std::move(impl)),
      tail_(std::move(tail)),
      row_step_(std::max(impl_->row_step, tail_ == nullptr ? 0 : tail_->row_step())) {}
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

absl::Status Matmul::Run(Epilogue epilogue, int64_t height, const void* input, void* output, void* scratch) const try {
  impl_->Run(impl_->weights, epilogue, height, input, output, scratch);
  return absl::OkStatus();
} catch (const dnnl::error& error) {
  return absl::InternalError(absl::StrCat("oneDNN product failed: ", error.message));
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
