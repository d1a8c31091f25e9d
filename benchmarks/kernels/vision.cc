// The two ends of a vision encoder.
#include "kernels/vision.h"

#include <cmath>

#include "benchmarks/kernels/measure.h"
#include "benchmarks/kernels/sizes.h"

namespace lion {
namespace {

constexpr int64_t kPatch = 16;

struct PatchOperands {
  PatchOperands(int64_t columns, DataType product)
      : width(columns),
        type(product),
        inputs(3 * kPatch * kPatch),
        weight(Normal(inputs * width, 1 / std::sqrt(static_cast<float>(inputs)))),
        bias(Normal(width, 1)),
        cls(Normal(width, 1)),
        positions(Normal(kOneImage * width, 1)),
        pixels(3 * kGrid * kPatch * kGrid * kPatch),
        tokens(DataType::kFloat32, kOneImage * width) {
    std::mt19937 random(1);
    for (uint8_t& pixel : pixels) pixel = static_cast<uint8_t>(random());
    image = {pixels.data(), PixelLayout::kInterleavedUint8, kGrid * kPatch, kGrid * kPatch, kGrid, kGrid};
  }

  std::unique_ptr<PackedLinear> Pack(const Operations& kernels) const {
    return kernels.pack_linear({weight.data(), bias.data(), inputs, width, type}).value();
  }
  absl::Status Run(const Operations& kernels, KernelContext& context, const PackedLinear& packed,
                   const Array& to) const {
    return kernels.patch_embed(context, {.images = {&image, 1},
                                         .offsets = offsets,
                                         .patch_size = kPatch,
                                         .mean = {0.485f, 0.456f, 0.406f},
                                         .std = {0.229f, 0.224f, 0.225f},
                                         .projection = &packed,
                                         .cls_token = cls.data(),
                                         .positions = positions.data(),
                                         .grid = kGrid,
                                         .tokens = to.floats()});
  }

  int64_t width;
  DataType type;
  int64_t inputs;
  std::vector<float> weight, bias, cls, positions;
  std::vector<uint8_t> pixels;
  Array tokens;
  PatchImage image;
  std::vector<int64_t> offsets = {0, kOneImage};
};

KernelCase MakePatchEmbed(Bench& bench, int64_t width, DataType type) {
  const auto o = std::make_shared<PatchOperands>(width, type);
  const std::shared_ptr<PackedLinear> packed = o->Pack(*bench.cpu);
  return {.product = type,
          .tokens = static_cast<double>(kOneImage),
          .flops = 2.0 * static_cast<double>(kGrid * kGrid * o->inputs * width),
          .prepare = {},
          .run = [&bench, o, packed] { return o->Run(*bench.cpu, *bench.context, *packed, o->tokens); },
          .mistake = [&bench, o]() -> std::string {
            const Array want(DataType::kFloat32, kOneImage * o->width);
            const auto reference = o->Pack(ReferenceOperations());
            const auto status = o->Run(ReferenceOperations(), *bench.reference_context, *reference, want);
            return status.ok() ? Compare(o->type, o->tokens.values(), want.values()) : status.ToString();
          }};
}

KernelCase MakePool(Bench& bench, int64_t width) {
  struct Operands {
    std::vector<int64_t> offsets;
    std::vector<float> gamma, beta;
    Array x, output;
  };
  constexpr int64_t kImages = kEightImages / kOneImage;
  const auto o = std::make_shared<Operands>(Operands{{},
                                                     Normal(width, 0.5f, 1),
                                                     Normal(width, 1),
                                                     Array(DataType::kFloat32, Normal(kEightImages * width, 1)),
                                                     Array(DataType::kFloat32, kImages * width)});
  for (int64_t i = 0; i <= kImages; ++i) o->offsets.push_back(i * kOneImage);
  const auto run = [o, width](const Operations& kernels, KernelContext& context, const Array& to) {
    return kernels.pool(context, {.x = o->x.floats(),
                                  .offsets = o->offsets,
                                  .width = width,
                                  .norm = {o->gamma.data(), o->beta.data(), 1e-6f},
                                  .kind = PoolKind::kMean,
                                  .output = to.floats()});
  };
  return {.tokens = static_cast<double>(kEightImages),
          .bytes = 4.0 * static_cast<double>(kEightImages * width),
          .prepare = {},
          .run = [&bench, o, run] { return run(*bench.cpu, *bench.context, o->output); },
          .mistake = [&bench, o, run, width]() -> std::string {
            const Array want(DataType::kFloat32, kImages * width);
            const auto status = run(ReferenceOperations(), *bench.reference_context, want);
            return status.ok() ? Compare(DataType::kFloat32, o->output.values(), want.values()) : status.ToString();
          }};
}

}  // namespace

void RegisterVision(Bench& bench) {
  for (const ModelSize& size : kModelSizes) {
    const int64_t width = size.width;
    for (const DataType type : bench.types()) {
      const std::string name =
          std::string("patch_embed/") + size.name + "/" + std::to_string(kOneImage) + "/" + bench.Suffix(type);
      Register(bench, name, [=](Bench& b) { return MakePatchEmbed(b, width, type); });
    }
    const std::string name =
        std::string("pool/") + size.name + "/" + std::to_string(kEightImages) + "/" + bench.Suffix(DataType::kFloat32);
    Register(bench, name, [=](Bench& b) { return MakePool(b, width); });
  }
}

}  // namespace lion
