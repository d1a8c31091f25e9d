#include "kernels/cpu/product_limit.h"

#include <algorithm>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "kernels/cpu/thread_pool.h"

namespace lion::cpu {
namespace {

dnnl::engine& DnnlEngine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// Small, of both signs and never 0: products of zeros take less power, and processors then run faster.
float Value(int64_t index) { return static_cast<float>(2 * (index % 126) - 125) * 1e-3f; }

void FillInput(std::vector<char>& input, DataType type) {
  const int64_t bytes = DataTypeSize(type);
  for (int64_t i = 0; i < static_cast<int64_t>(input.size()) / bytes; ++i) {
    const float value = Value(i);
    const uint16_t rounded = ToBFloat16(value);
    const void* from = type == DataType::kFloat32 ? static_cast<const void*>(&value) : &rounded;
    std::memcpy(input.data() + i * bytes, from, static_cast<size_t>(bytes));
  }
}

struct Product {
  dnnl::matmul primitive;
  dnnl::memory::desc source, target;
  dnnl::memory weights;
  int64_t inputs, outputs;
};

}  // namespace

struct ProductLimit::Impl {
  int64_t tokens, tile_rows, element_bytes;
  std::vector<Product> products;
  std::vector<char> input, output;
  ThreadPool pool;

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
    auto* const weights = static_cast<float*>(plain.get_data_handle());
    for (int64_t i = 0; i < inputs * outputs; ++i) weights[i] = Value(i);
    dnnl::stream stream(DnnlEngine());
    dnnl::reorder(plain, product.weights).execute(stream, plain, product.weights);
    stream.wait();
    products.push_back(std::move(product));
  }
};

ProductLimit::ProductLimit(const ProductShape& shape, int64_t tile_rows, DataType type, int threads)
    : impl_(std::make_unique<Impl>(threads)) {
  const bool is_float = type == DataType::kFloat32;
  const auto dnnl_type = is_float ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
  impl_->tokens = shape.tokens;
  impl_->tile_rows = std::min(tile_rows, shape.tokens);
  impl_->element_bytes = DataTypeSize(type);
  for (int64_t layer = 0; layer < shape.depth; ++layer) {
    impl_->Add(shape.width, 3 * shape.width, dnnl_type);
    impl_->Add(shape.width, shape.width, dnnl_type);
    impl_->Add(shape.width, shape.mlp_width, dnnl_type);
    impl_->Add(shape.mlp_width, shape.width, dnnl_type);
  }
  // The last tile may reach beyond the tokens.
  const int64_t rows = (shape.tokens + impl_->tile_rows - 1) / impl_->tile_rows * impl_->tile_rows;
  const int64_t columns = std::max(3 * shape.width, shape.mlp_width);
  impl_->input.resize(static_cast<size_t>(rows * columns * impl_->element_bytes));
  FillInput(impl_->input, type);
  impl_->output.assign(impl_->input.size(), 0);
}

ProductLimit::~ProductLimit() = default;

void ProductLimit::Run() {
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

}  // namespace lion::cpu
