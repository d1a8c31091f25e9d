#include "kernels/mixer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/internal.h"

namespace lion::reference {
namespace {

// One sequence and head, in float64: q, k (after the feature map) and v, [L, d] in token order.
struct Head {
  int64_t length = 0;
  int64_t width = 0;
  std::vector<double> q, k, v;
};

void ApplyFeatureMap(FeatureMap map, double* x, int64_t width) {
  if (map == FeatureMap::kIdentity) return;
  double squares = 0;
  for (int64_t i = 0; i < width; ++i) {
    if (map == FeatureMap::kEluPlusOne) {
      x[i] = x[i] > 0 ? x[i] + 1 : std::exp(x[i]);
    } else {
      x[i] = x[i] / (1 + std::exp(-x[i])) + 0.5;
      squares += x[i] * x[i];
    }
  }
  if (map == FeatureMap::kNormalizedSilu) {
    for (int64_t i = 0; i < width; ++i) x[i] /= std::sqrt(squares);
  }
}

Head LoadHead(const void* qkv, DataType type, int64_t begin, int64_t end, int64_t heads, int64_t width, int64_t head,
              FeatureMap map) {
  Head loaded{end - begin, width, {}, {}, {}};
  for (int64_t token = begin; token < end; ++token) {
    for (int64_t part = 0; part < 3; ++part) {
      std::vector<double>& into = part == 0 ? loaded.q : part == 1 ? loaded.k : loaded.v;
      for (int64_t i = 0; i < width; ++i) {
        into.push_back(Load(qkv, type, ((token * 3 + part) * heads + head) * width + i));
      }
      if (part < 2) ApplyFeatureMap(map, into.data() + into.size() - width, width);
    }
  }
  return loaded;
}

double Dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// Unnormalised y [L, d] and c [L] of one order are added to the arrays given, times `weight`. place[i] is the token at
// the i-th place of the scan, decay[i] its log lambda.
void AttentionForm(const Head& head, const std::vector<int64_t>& place, const std::vector<double>& decay, double weight,
                   std::vector<double>& y, std::vector<double>& c) {
  const int64_t length = head.length, width = head.width;
  std::vector<double> prefix(length + 1, 0.0);
  for (int64_t i = 0; i < length; ++i) prefix[i + 1] = prefix[i] + decay[i];
  for (int64_t i = 0; i < length; ++i) {
    for (int64_t j = 0; j < length; ++j) {
      const double log_mask = i > j ? prefix[i] - prefix[j] : i < j ? prefix[j + 1] - prefix[i + 1] : 0;
      const double score =
          weight * std::exp(log_mask) * Dot(&head.q[place[i] * width], &head.k[place[j] * width], width);
      c[place[i]] += score;
      for (int64_t n = 0; n < width; ++n) y[place[i] * width + n] += score * head.v[place[j] * width + n];
    }
  }
}

void RecurrentForm(const Head& head, const std::vector<int64_t>& place, const std::vector<double>& decay, double weight,
                   std::vector<double>& y, std::vector<double>& c) {
  const int64_t length = head.length, width = head.width;
  for (const bool forward : {true, false}) {
    std::vector<double> state(width * width, 0.0), z(width, 0.0);
    for (int64_t step = 0; step < length; ++step) {
      const int64_t i = forward ? step : length - 1 - step;
      const int64_t previous = forward ? i - 1 : i + 1;
      const double lambda = step == 0 ? 0 : std::exp(decay[previous]);
      const double *q = &head.q[place[i] * width], *k = &head.k[place[i] * width], *v = &head.v[place[i] * width];
      for (int64_t a = 0; a < width; ++a) {
        z[a] = lambda * z[a] + k[a];
        c[place[i]] += weight * q[a] * (z[a] - k[a] / 2);
        for (int64_t b = 0; b < width; ++b) {
          double& s = state[a * width + b];
          s = lambda * s + k[a] * v[b];
          y[place[i] * width + b] += weight * q[a] * (s - k[a] * v[b] / 2);
        }
      }
    }
  }
}

}  // namespace

absl::Status LogDecay(KernelContext&, const LogDecayArgs& args) {
  for (int64_t i = 0; i < args.rows * args.columns; ++i) {
    const double z = args.kind == DecayKind::kLearned ? -static_cast<double>(args.values[i]) : args.values[i];
    const double softplus = std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z)));
    const double value = args.kind == DecayKind::kSelectiveText ? std::log(1 / (1 + std::exp(z)) + 1e-7) : -softplus;
    args.values[i] = static_cast<float>(value);
  }
  for (size_t s = 0; s + 1 < args.offsets.size(); ++s) {
    std::fill_n(args.values + args.offsets[s] * args.columns, args.columns, 0.0f);
  }
  return absl::OkStatus();
}

// kChunk is kAttention here: the attention form is the block form with blocks as long as the sequence.
absl::Status Mixer(KernelContext&, const MixerArgs& args) {
  const int64_t width = args.head_width, heads = args.heads;
  for (size_t s = 0; s + 1 < args.offsets.size(); ++s) {
    const int64_t begin = args.offsets[s], length = args.offsets[s + 1] - begin;
    for (int64_t h = 0; h < heads; ++h) {
      const Head head = LoadHead(args.qkv, args.type, begin, begin + length, heads, width, h, args.feature_map);
      std::vector<double> y(length * width, 0.0), c(length, 0.0);
      for (int o = 0; o < args.order_count; ++o) {
        const MixerOrder& order = args.orders[o];
        std::vector<int64_t> place(length);
        std::vector<double> decay(length, 0.0);
        for (int64_t i = 0; i < length; ++i) {
          place[i] = order.permutation == nullptr ? i : order.permutation[begin + i];
          if (order.log_decay != nullptr) decay[i] = order.log_decay[(begin + place[i]) * order.token_stride + h];
        }
        const double weight = static_cast<double>(args.scale) / args.order_count;
        if (args.form == MixerForm::kRecurrent) {
          RecurrentForm(head, place, decay, weight, y, c);
        } else {
          AttentionForm(head, place, decay, weight, y, c);
        }
      }
      for (int64_t i = 0; i < length; ++i) {
        const double divisor = args.normalize ? c[i] + args.epsilon : 1;
        for (int64_t n = 0; n < width; ++n) {
          Store(args.output, args.type, ((begin + i) * heads + h) * width + n, y[i * width + n] / divisor);
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::Status SoftmaxAttention(KernelContext&, const SoftmaxAttentionArgs& args) {
  const int64_t width = args.head_width, heads = args.heads;
  for (size_t s = 0; s + 1 < args.offsets.size(); ++s) {
    const int64_t begin = args.offsets[s], length = args.offsets[s + 1] - begin;
    for (int64_t h = 0; h < heads; ++h) {
      const Head head = LoadHead(args.qkv, args.type, begin, begin + length, heads, width, h, FeatureMap::kIdentity);
      for (int64_t i = 0; i < length; ++i) {
        std::vector<double> score(length);
        double peak = -HUGE_VAL, sum = 0;
        for (int64_t j = 0; j < length; ++j) {
          score[j] = args.scale * Dot(&head.q[i * width], &head.k[j * width], width);
          peak = std::max(peak, score[j]);
        }
        for (double& value : score) sum += value = std::exp(value - peak);
        for (int64_t n = 0; n < width; ++n) {
          double y = 0;
          for (int64_t j = 0; j < length; ++j) y += score[j] / sum * head.v[j * width + n];
          Store(args.output, args.type, ((begin + i) * heads + h) * width + n, y);
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace lion::reference
