#include "kernels/cpu/block_product.h"

#include <oneapi/dnnl/dnnl.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lion::cpu {
namespace {

const dnnl::engine& Engine() {
  static const dnnl::engine* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

dnnl::memory::desc Matrix(int64_t rows, int64_t columns, bool transposed, DataType type) {
  return dnnl::memory::desc({rows, columns},
                            type == DataType::kFloat32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16,
                            transposed ? dnnl::memory::format_tag::ba : dnnl::memory::format_tag::ab);
}

// The arguments of one thread's calls: making them anew costs as much as a small product.
struct Arguments {
  dnnl::stream stream;
  dnnl::memory a, b, c, scratch;
};

}  // namespace

struct BlockProduct::Impl {
  dnnl::matmul primitive;
  int64_t scratch_bytes = 0;
  std::vector<Arguments> threads;
};

BlockProduct::BlockProduct(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BlockProduct::~BlockProduct() = default;

absl::StatusOr<std::unique_ptr<BlockProduct>> BlockProduct::Create(const Shape& shape, int threads) {
  auto impl = std::make_unique<Impl>();
  try {
    const dnnl::memory::desc a = Matrix(shape.rows, shape.depth, shape.transposed_a, shape.input);
    const dnnl::memory::desc b = Matrix(shape.depth, shape.columns, shape.transposed_b, shape.input);
    const dnnl::memory::desc c = Matrix(shape.rows, shape.columns, false, shape.output);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc description(Engine(), a, b, c, attributes);
#else
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c), attributes, Engine());
#endif
    impl->primitive = dnnl::matmul(description);
    impl->scratch_bytes = static_cast<int64_t>(description.scratchpad_desc().get_size());
    for (int thread = 0; thread < threads; ++thread) {
      const auto memory = [](const dnnl::memory::desc& desc) { return dnnl::memory(desc, Engine(), nullptr); };
      impl->threads.push_back(
          {dnnl::stream(Engine()), memory(a), memory(b), memory(c), memory(description.scratchpad_desc())});
    }
  } catch (const dnnl::error& error) {
    const std::string what =
        absl::StrCat("oneDNN: ", error.message, " (block product ", shape.rows, " x ", shape.depth, " x ",
                     shape.columns, ", ", shape.input == DataType::kFloat32 ? "float32" : "bfloat16", ")");
    if (error.status == dnnl_unimplemented) return absl::UnimplementedError(what);
    return absl::InternalError(what);
  }
  return std::unique_ptr<BlockProduct>(new BlockProduct(std::move(impl)));
}

int64_t BlockProduct::scratch_bytes() const { return impl_->scratch_bytes; }

absl::Status BlockProduct::Run(int thread, const void* a, const void* b, void* c, void* scratch) const {
  Arguments& use = impl_->threads[static_cast<size_t>(thread)];
  try {
    use.a.set_data_handle(const_cast<void*>(a));
    use.b.set_data_handle(const_cast<void*>(b));
    use.c.set_data_handle(c);
    use.scratch.set_data_handle(scratch);
    // The C function: the C++ one builds a hash table first.
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, use.a.get()},
                                         {DNNL_ARG_WEIGHTS, use.b.get()},
                                         {DNNL_ARG_DST, use.c.get()},
                                         {DNNL_ARG_SCRATCHPAD, use.scratch.get()}};
    dnnl::error::wrap_c_api(dnnl_primitive_execute(impl_->primitive.get(), use.stream.get(), 4, arguments),
                            "could not execute a block product");
    return absl::OkStatus();
  } catch (const dnnl::error& error) {
    return absl::InternalError(absl::StrCat("oneDNN product failed: ", error.message));
  }
}

}  // namespace lion::cpu
