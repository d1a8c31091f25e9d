// The chunkwise form of the mixer (docs/mathematics.md, section 1) in three parallel loops over blocks of tokens: the
// state that each block adds, the states that enter each block, the outputs. Work is products of [64, d] blocks, memory
// O(L d). Included once per instruction set.
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <type_traits>

#include "absl/status/status.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/mixer_chunk_memory-inl.h"
#include "kernels/cpu/mixer_decay-inl.h"
#include "kernels/cpu/mixer_head-inl.h"
#include "kernels/cpu/mixer_rows-inl.h"

#if defined(LION_KERNELS_CPU_MIXER_CHUNK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LION_KERNELS_CPU_MIXER_CHUNK_INL_H
#undef LION_KERNELS_CPU_MIXER_CHUNK_INL_H
#else
#define LION_KERNELS_CPU_MIXER_CHUNK_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lion::cpu::HWY_NAMESPACE {

// state = running, running = decay * running + what state was; count is a multiple of kOperandPad.
template <typename O>
HWY_NOINLINE void EnterBlock(int64_t count, float decay, float* running, O* state) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, decay);
  for (int64_t i = 0; i < count; i += 2 * lanes) {
    const auto add_a = LoadF32(d, state + i), add_b = LoadF32(d, state + i + lanes);
    const auto a = hn::LoadU(d, running + i), b = hn::LoadU(d, running + i + lanes);
    StorePair(d, a, b, state + i);
    hn::StoreU(hn::MulAdd(a, factor, add_a), d, running + i);
    hn::StoreU(hn::MulAdd(b, factor, add_b), d, running + i + lanes);
  }
}
inline HWY_NOINLINE void EnterBlock(int64_t count, float decay, double* running, float* state) {
  const hn::CappedTag<double, 8> d64;
  const hn::Rebind<float, decltype(d64)> d32;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d64));
  const auto factor = hn::Set(d64, static_cast<double>(decay));
  for (int64_t i = 0; i < count; i += lanes) {
    const auto add = hn::PromoteTo(d64, hn::LoadU(d32, state + i));
    const auto sum = hn::LoadU(d64, running + i);
    hn::StoreU(hn::DemoteTo(d32, sum), d32, state + i);
    hn::StoreU(hn::MulAdd(sum, factor, add), d64, running + i);
  }
}

template <typename Sum, typename O>
void StoreState(int64_t count, const Sum* running, O* state) {
  if constexpr (std::is_same_v<Sum, double>) {
    std::transform(running, running + count, state, [](double sum) { return static_cast<float>(sum); });
  } else {
    ConvertRow(running, count, state);
  }
}

// out[i, j] = M[i, j] scores[i, j], whose rows are `columns` and `out_row` apart; c[i] += the sum of row i.
template <typename O>
HWY_NOINLINE void MaskScores(int64_t n, int64_t columns, const float* scores, BlockDecay<O>& decay, O* out,
                             int64_t out_row, float* c) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  // Columns are whole vectors but not whole pairs: one vector of kPad lanes may be left.
  HWY_ALIGN O last[2 * kPad];
  for (int64_t i = 0; i < n; ++i, scores += columns, out += out_row) {
    if (i % kPad == 0) decay.SetRows(i, columns);
    const float* mask = decay.MaskRow(i, columns);
    auto sum = hn::Zero(d);
    int64_t j = 0;
    for (; j + 2 * lanes <= columns; j += 2 * lanes) {
      const auto a = hn::Mul(hn::LoadU(d, scores + j), hn::LoadU(d, mask + j));
      const auto b = hn::Mul(hn::LoadU(d, scores + j + lanes), hn::LoadU(d, mask + j + lanes));
      sum = hn::Add(sum, hn::Add(a, b));
      StorePair(d, a, b, out + j);
    }
    if (j < columns) {
      const auto a = hn::Mul(hn::LoadU(d, scores + j), hn::LoadU(d, mask + j));
      sum = hn::Add(sum, a);
      StorePair(d, a, a, last);
      std::copy_n(last, lanes, out + j);
    }
    c[i] += hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

// T: type of the activations, O: of the operands.
template <typename T, typename O>
class ChunkMixer {
 public:
  ChunkMixer(CpuContext& context, const MixerArgs& args, const MixerProducts& products)
      : context_(context),
        args_(args),
        products_(products),
        padded_(products.width()),
        directions_(products.decays() ? 2 : 1) {}

  absl::Status Run() {
    const int64_t units = (static_cast<int64_t>(args_.offsets.size()) - 1) * args_.heads;
    const int64_t capacity = Capacity();
    const typename ChunkMemory<O>::Size size = {capacity, padded_, directions_, args_.order_count};
    memory_ = ChunkMemory<O>::At(context_.ReserveShared(ChunkMemory<O>::Bytes(size)), size);
    for (int64_t next = 0; next < units;) {
      next = TakeUnits(next, units, capacity);
      for (int order = 0; order < args_.order_count; ++order) {
        ForEachBlock([&](const MixerUnit& unit, int64_t block, int thread) { AddedState(unit, block, order, thread); });
        EnterBlocks();
        ForEachBlock([&](const MixerUnit& unit, int64_t block, int thread) { Outputs(unit, block, order, thread); });
      }
    }
    return failure_;
  }

 private:
  // Each state is scanned in this many parts at once.
  static constexpr int kParts = 4;

  static int64_t Blocks(int64_t length) { return (length + kBlock - 1) / kBlock; }

  // Blocks of a group: enough for all threads, but no fewer than the longest sequence has.
  int64_t Capacity() const {
    int64_t longest = 1, all = 0;
    for (size_t s = 0; s + 1 < args_.offsets.size(); ++s) {
      const int64_t blocks = Blocks(args_.offsets[s + 1] - args_.offsets[s]);
      longest = std::max(longest, blocks);
      all += blocks * args_.heads;
    }
    return std::max(longest, std::min(all, MixerGroupBlocks(context_.pool().threads())));
  }

  // Sequences and heads from `next` on, as many as there is room for; where the following group begins.
  int64_t TakeUnits(int64_t next, int64_t end, int64_t capacity) {
    units_ = blocks_ = 0;
    for (; next < end; ++next) {
      const size_t sequence = static_cast<size_t>(next / args_.heads);
      const int64_t length = args_.offsets[sequence + 1] - args_.offsets[sequence], blocks = Blocks(length);
      if (blocks_ + blocks > capacity) break;
      memory_.units[units_++] = {sequence, next % args_.heads, length, blocks, blocks_};
      blocks_ += blocks;
    }
    return next;
  }

  template <class Body>
  void ForEachBlock(const Body& body) {
    context_.pool().ParallelFor(blocks_, [&](int64_t task, int thread) {
      const MixerUnit* unit = std::upper_bound(memory_.units, memory_.units + units_, task,
                                               [](int64_t t, const MixerUnit& u) { return t < u.first_block; }) -
                              1;
      body(*unit, task - unit->first_block, thread);
    });
  }

  HeadView<T> View(const MixerUnit& unit, int order) const {
    return HeadView<T>(args_, unit.sequence, unit.head, args_.orders[order]);
  }
  ChunkTiles<O> Tiles(int thread) const { return ChunkTiles<O>(context_, thread, padded_, products_.scratch_bytes()); }
  O* State(int64_t block) const { return memory_.states + block * directions_ * padded_ * padded_; }
  float* Z(int64_t block) const { return memory_.z + block * directions_ * padded_; }

  void Product(const BlockProduct& product, int thread, const O* a, const O* b, void* c, std::byte* scratch) {
    absl::Status status = product.Run(thread, a, b, c, scratch);
    if (status.ok()) return;
    std::lock_guard<std::mutex> lock(mutex_);
    failure_.Update(status);
  }

  // phi(k) of the block's tokens, 0 beyond them up to `rows`; they are computed with the first order and kept.
  const O* Keys(const MixerUnit& unit, const HeadView<T>& head, int64_t block, int order, bool compute, O* tile) const {
    const int64_t first = block * kBlock, n = std::min(kBlock, unit.length - first), rows = PaddedTokens(n);
    O* const kept = memory_.keys + unit.first_block * kBlock * padded_;
    const auto token = [&](int64_t r) { return kept + head.Place(first + r) * padded_; };
    // With one order they stay where they are.
    if (directions_ == 2 && args_.order_count == 1) tile = kept + first * padded_;
    if (compute && order == 0) {
      LoadPhi(
          args_.feature_map, n, args_.head_width, [&](int64_t r) { return head.Row(1, first + r); }, tile);
      std::fill_n(tile + n * padded_, (rows - n) * padded_, O{0});
      if (args_.order_count == 2) {
        for (int64_t r = 0; r < n; ++r) CopyOperand(tile + r * padded_, padded_, token(r));
      }
    } else if (args_.order_count == 2) {
      for (int64_t r = 0; r < n; ++r) CopyOperand(token(r), padded_, tile + r * padded_);
      std::fill_n(tile + n * padded_, (rows - n) * padded_, O{0});
    }
    return tile;
  }

  // v of the block's tokens, 0 beyond them up to `rows`.
  void Values(const HeadView<T>& head, int64_t first, int64_t n, int64_t rows, O* out) const {
    LoadRows(
        n, args_.head_width, [&](int64_t r) { return head.Row(2, first + r); }, out);
    std::fill_n(out + n * padded_, (rows - n) * padded_, O{0});
  }

  // What the block adds to the state that leaves it, in each direction.
  void AddedState(const MixerUnit& unit, int64_t block, int order, int thread) {
    const int64_t first = block * kBlock, n = std::min(kBlock, unit.length - first), rows = PaddedTokens(n);
    const int64_t place = unit.first_block + block;
    const HeadView<T> head = View(unit, order);
    const ChunkTiles<O> tiles = Tiles(thread);
    const O* keys = Keys(unit, head, block, order, true, tiles.k);
    Values(head, first, n, rows, tiles.b);
    if (directions_ == 2) {
      BlockDecay<O> decay;
      decay.Set(head, first, n);
      memory_.whole[place] = decay.whole;
      const float* const weights[2] = {decay.to_right, decay.to_left};
      WeighKeys<2>(n, padded_, keys, weights, tiles.a, Z(place));
      std::fill_n(tiles.a + n * 2 * padded_, (rows - n) * 2 * padded_, O{0});
      keys = tiles.a;
    } else {
      WeighKeys<1>(n, padded_, keys, {}, tiles.a, Z(place));
    }
    Product(*products_.OfPaddedTokens(rows).state, thread, keys, tiles.b, State(place), tiles.product);
  }

  // Turns what blocks add into the states that enter them: from the left in direction 0, from the right in 1. Without
  // decay the first block gets the sum of all.
  void EnterBlocks() {
    context_.pool().ParallelFor(units_ * directions_ * kParts, [&](int64_t task, int thread) {
      const MixerUnit& unit = memory_.units[task / (directions_ * kParts)];
      const int64_t direction = task / kParts % directions_, part = task % kParts;
      const int64_t count = padded_ * padded_ / kParts, offset = direction * padded_ * padded_ + part * count;
      const int64_t begin = unit.first_block, end = begin + unit.blocks;
      const auto scan = [&](auto* running, int64_t length, const auto& state) {
        std::fill_n(running, length, 0);
        for (int64_t b = begin; b < end; ++b) {
          const int64_t place = direction == 0 ? b : begin + end - 1 - b;
          EnterBlock(length, directions_ == 2 ? memory_.whole[place] : 1.0f, running, state(place));
        }
      };
      const ChunkTiles<O> tiles = Tiles(thread);
      const auto state = [&](int64_t place) { return State(place) + offset; };
      scan(tiles.running, count, state);
      if (directions_ == 1) StoreState(count, tiles.running, state(begin));
      if (part != 0) return;
      const auto z = [&](int64_t place) { return Z(place) + direction * padded_; };
      scan(tiles.running, padded_, z);
      if (directions_ == 1) StoreState(padded_, tiles.running, z(begin));
    });
  }

  void Outputs(const MixerUnit& unit, int64_t block, int order, int thread) {
    const int64_t first = block * kBlock, n = std::min(kBlock, unit.length - first), rows = PaddedTokens(n);
    const HeadView<T> head = View(unit, order);
    const ChunkTiles<O> tiles = Tiles(thread);
    const BlockProducts& products = products_.OfPaddedTokens(rows);
    Queries(head, first, n, order, tiles.q);
    float c[kBlock];
    if (directions_ == 1) {
      WeighQueries<1>(n, padded_, tiles.q, {}, Z(unit.first_block), tiles.a, 0, c);
      Product(*products.output, thread, tiles.q, State(unit.first_block), tiles.y, tiles.product);
    } else {
      const int64_t place = unit.first_block + block, row = rows + 2 * padded_;
      BlockDecay<O> decay;
      decay.Set(head, first, n);
      const float* const weights[2] = {decay.from_left, decay.from_right};
      WeighQueries<2>(n, padded_, tiles.q, weights, Z(place), tiles.a + rows, row, c);
      Product(*products.scores, thread, tiles.q, Keys(unit, head, block, order, false, tiles.k), tiles.scores,
              tiles.product);
      MaskScores(n, rows, tiles.scores, decay, tiles.a, row, c);
      Values(head, first, n, rows, tiles.b);
      CopyOperand(State(place), 2 * padded_ * padded_, tiles.b + rows * padded_);
      Product(*products.output, thread, tiles.a, tiles.b, tiles.y, tiles.product);
    }
    Emit(unit, head, first, n, order, tiles.y, c);
  }

  // phi(q) of the block's tokens. Between the two orders it waits in the output's rows.
  void Queries(const HeadView<T>& head, int64_t first, int64_t n, int order, O* q) const {
    if (order == 1)
      return LoadRows(
          n, args_.head_width, [&](int64_t r) { return head.Output(first + r); }, q);
    LoadPhi(
        args_.feature_map, n, args_.head_width, [&](int64_t r) { return head.Row(0, first + r); }, q);
    if (args_.order_count == 1) return;
    for (int64_t r = 0; r < n; ++r) ConvertRow(q + r * padded_, args_.head_width, head.Output(first + r));
  }

  void Emit(const MixerUnit& unit, const HeadView<T>& head, int64_t first, int64_t n, int order, float* y,
            float* c) const {
    for (int64_t r = 0; r < n; ++r, y += padded_) {
      if (args_.order_count == 2) {
        const int64_t token = unit.first_block * kBlock + head.Place(first + r);
        float* const sum = memory_.y + token * padded_;
        if (order == 0) {
          CopyOperand(y, padded_, sum);
          memory_.c[token] = c[r];
          continue;
        }
        ForEach(padded_, [&](auto d, int64_t i)
                             HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(d, sum + i), hn::LoadU(d, y + i)), d, y + i); });
        c[r] += memory_.c[token];
      }
      StoreOutput(args_, y, c[r], head.Output(first + r));
    }
  }

  CpuContext& context_;
  const MixerArgs& args_;
  const MixerProducts& products_;
  const int64_t padded_;
  const int directions_;
  ChunkMemory<O> memory_;
  int64_t units_ = 0, blocks_ = 0;  // of the group at hand
  std::mutex mutex_;
  absl::Status failure_;
};

}  // namespace lion::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
