#include "benchmarks/engine/products.h"

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "kernels/cpu/thread_pool.h"

namespace lion {
namespace {

dnnl::engine& DnnlEngine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

struct Product {
  dnnl::matmul primitive;
  dnnl::memory::desc source, target;
  dnnl::memory weights;
  int64_t inputs, outputs;
};

}  // namespace

struct Products::Impl {
  int64_t tokens, tile_rows, element_bytes;
  std::vector<Product> products;
  std::vector<char> input, output;
  cpu::ThreadPool pool;

  explicit Impl(int threads) : pool(threads) {}

  void Add(int64_t inputs, int64_t outputs, dnnl::memory::data_type type) {
    using Tag = dnnl::memory::format_tag;
    Product product;
    product.inputs = inputs;
    product.outputs = outputs;
    product.source = dnnl::memory::desc({tile_rows, inputs}, type, Tag::ab);
    product.target = dnnl::memory::desc({tile_rows, outputs}, type, Tag::ab);
    const dnnl::memory::desc any({inputs, outputs}, type, Tag::any);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc description(DnnlEngine(), product.source, any, product.target);
#else
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(product.source, any, product.target),
                                                   DnnlEngine());
#endif
    product.primitive = dnnl::matmul(description);
    product.weights = dnnl::memory(description.weights_desc(), DnnlEngine());
    dnnl::memory plain({{inputs, outputs}, dnnl::memory::data_type::f32, Tag::ab}, DnnlEngine());
    std::fill_n(static_cast<float*>(plain.get_data_handle()), inputs * outputs, 0.01f);
    dnnl::stream stream(DnnlEngine());
    dnnl::reorder(plain, product.weights).execute(stream, plain, product.weights);
    stream.wait();
    products.push_back(std::move(product));
  }
};

Products::Products(int64_t width, int64_t depth, int64_t tokens, int64_t tile_rows, DataType type, int threads)
    : impl_(std::make_unique<Impl>(threads)) {
  const bool is_float = type == DataType::kFloat32;
  const auto dnnl_type = is_float ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
  impl_->tokens = tokens;
  impl_->tile_rows = std::min(tile_rows, tokens);
  impl_->element_bytes = is_float ? 4 : 2;
  for (int64_t layer = 0; layer < depth; ++layer) {
    impl_->Add(width, 3 * width, dnnl_type);
    impl_->Add(width, width, dnnl_type);
    impl_->Add(width, 4 * width, dnnl_type);
    impl_->Add(4 * width, width, dnnl_type);
  }
  // The last tile may reach beyond the tokens.
  const int64_t rows = (tokens + impl_->tile_rows - 1) / impl_->tile_rows * impl_->tile_rows;
  impl_->input.assign(static_cast<size_t>(rows * 4 * width * impl_->element_bytes), 0);
  impl_->output.assign(impl_->input.size(), 0);
}

Products::~Products() = default;

void Products::Run() {
  Impl& impl = *impl_;
  const int64_t tiles = (impl.tokens + impl.tile_rows - 1) / impl.tile_rows;
  for (const Product& product : impl.products) {
    impl.pool.ParallelFor(tiles, [&](int64_t tile, int) {
      thread_local dnnl::stream stream(DnnlEngine());
      const int64_t row = tile * impl.tile_rows * impl.element_bytes;
      const dnnl::memory source(product.source, DnnlEngine(), impl.input.data() + row * product.inputs);
      const dnnl::memory target(product.target, DnnlEngine(), impl.output.data() + row * product.outputs);
      product.primitive.execute(stream,
                                {{DNNL_ARG_SRC, source}, {DNNL_ARG_WEIGHTS, product.weights}, {DNNL_ARG_DST, target}});
    });
  }
}

}  // namespace lion
