// One sequence and head of the mixer: where its rows are, loading blocks of tokens, storing. Included once per
// instruction set.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/mixer_products.h"
#include "kernels/cpu/vector-inl.h"
#include "kernels/mixer.h"

#if defined(LION_KERNELS_CPU_MIXER_HEAD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LION_KERNELS_CPU_MIXER_HEAD_INL_H
#undef LION_KERNELS_CPU_MIXER_HEAD_INL_H
#else
#define LION_KERNELS_CPU_MIXER_HEAD_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lion::cpu::HWY_NAMESPACE {

// phi in place on one row of `width` floats, the row being padded to a multiple of kPad with anything; the padding is 0
// afterwards.
inline HWY_NOINLINE void ApplyFeatureMap(FeatureMap map, int64_t width, float* x) {
  if (map == FeatureMap::kEluPlusOne) {
    ForEach(width, [&](auto d, int64_t i) HWY_ATTR {
      const auto v = hn::LoadU(d, x + i);
      const auto low = hn::Exp(d, hn::Min(v, hn::Zero(d)));
      const auto high = hn::Add(v, hn::Set(d, 1.0f));
      hn::StoreU(KeepNaN<decltype(d)>(v, hn::IfThenElse(hn::Gt(v, hn::Zero(d)), high, low)), d, x + i);
    });
  } else if (map == FeatureMap::kNormalizedSilu) {
    ForEach(width, [&](auto d, int64_t i) HWY_ATTR {
      const auto v = hn::LoadU(d, x + i);
      const auto one = hn::Set(d, 1.0f);
      const auto sigmoid = hn::Div(one, hn::Add(one, ExpKeepingNaN(d, hn::Neg(v))));
      hn::StoreU(hn::MulAdd(v, sigmoid, hn::Set(d, 0.5f)), d, x + i);
    });
    const float squares = SumOver(width, [&](auto d, int64_t i) HWY_ATTR {
      const auto v = hn::LoadU(d, x + i);
      return hn::Mul(v, v);
    });
    const float scale = 1.0f / std::sqrt(squares);
    ForEach(width,
            [&](auto d, int64_t i) HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, scale)), d, x + i); });
  }
  for (int64_t i = width; i < Padded(width); ++i) x[i] = 0;
}

// One scan of one head. T: type of the activations.
template <typename T>
class HeadView {
 public:
  HeadView(const MixerArgs& args, size_t sequence, int64_t head, const MixerOrder& order)
      : args_(args),
        order_(order),
        begin_(args.offsets[sequence]),
        length_(args.offsets[sequence + 1] - begin_),
        head_(head) {}

  int64_t length() const { return length_; }

  // The token at place i of the scan, counted from the sequence's first.
  int64_t Place(int64_t i) const { return order_.permutation == nullptr ? i : order_.permutation[begin_ + i]; }

  // Rows of q (0), k (1) or v (2) at places [first, first + rows) into x [rows, Padded(d)]; q and k through phi.
  void Load(int part, int64_t first, int64_t rows, float* x) const {
    const int64_t width = args_.head_width, padded = Padded(width);
    for (int64_t r = 0; r < rows; ++r) {
      ConvertRow(Row(part, first + r), width, x + r * padded);
      ApplyFeatureMap(part == 2 ? FeatureMap::kIdentity : args_.feature_map, width, x + r * padded);
    }
  }

  bool decays() const { return order_.log_decay != nullptr; }
  bool constant_decay() const { return order_.token_stride == 0; }
  float LogDecay(int64_t place) const {
    return order_.log_decay[(begin_ + Place(place)) * order_.token_stride + head_];
  }

  // The output row of the token at place i.
  T* Output(int64_t place) const {
    return static_cast<T*>(args_.output) + ((begin_ + Place(place)) * args_.heads + head_) * args_.head_width;
  }

  // The row of q (0), k (1) or v (2) of the token at place i.
  const T* Row(int part, int64_t place) const {
    return static_cast<const T*>(args_.qkv) +
           (((begin_ + Place(place)) * 3 + part) * args_.heads + head_) * args_.head_width;
  }

 private:
  const MixerArgs& args_;
  const MixerOrder& order_;
  int64_t begin_, length_, head_;
};

// y (unnormalised, without the scale) and c of one token to its output row.
template <typename T>
HWY_INLINE void StoreOutput(const MixerArgs& args, const float* y, float c, T* out) {
  const float weight = args.scale / static_cast<float>(args.order_count);
  const float factor = args.normalize ? weight / (weight * c + args.epsilon) : weight;
  ForEach(args.head_width,
          [&](auto d, int64_t i) HWY_ATTR { StoreF32(d, hn::Mul(hn::LoadU(d, y + i), hn::Set(d, factor)), out + i); });
}

}  // namespace lion::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
