// What the chunkwise form of the mixer keeps between its loops, and a thread's buffers for one block. Included once per
// instruction set.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/mixer_products.h"

#if defined(LION_KERNELS_CPU_MIXER_CHUNK_MEMORY_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LION_KERNELS_CPU_MIXER_CHUNK_MEMORY_INL_H
#undef LION_KERNELS_CPU_MIXER_CHUNK_MEMORY_INL_H
#else
#define LION_KERNELS_CPU_MIXER_CHUNK_MEMORY_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lion::cpu::HWY_NAMESPACE {

// One head of one sequence.
struct MixerUnit {
  size_t sequence;
  int64_t head, length;
  int64_t blocks, first_block;  // in the group's arrays
};

// Blocks of a group of units: enough for all threads.
inline int64_t MixerGroupBlocks(int threads) { return std::max(64, 16 * threads); }

// What the loops share, for a group of units that are worked on together. Units lie block after block, and rows of
// tokens as if every block were full.
template <typename O>
struct ChunkMemory {
  struct Size {
    int64_t blocks, padded;  // d padded
    int directions;          // 2 with decay, 1 without
    int orders;
  };
  static int64_t Bytes(const Size& size) {
    ChunkMemory memory;
    ScratchPlan plan;
    memory.Visit(size, [&](auto*&, auto one, int64_t count) { plan.Add<decltype(one)>(count); });
    return plan.bytes();
  }
  static ChunkMemory At(std::byte* place, const Size& size) {
    ChunkMemory memory;
    ScratchPlan plan;
    plan.Use(place);
    memory.Visit(size, [&](auto*& array, auto one, int64_t count) { array = plan.Take<decltype(one)>(count); });
    return memory;
  }

  MixerUnit* units = nullptr;  // [blocks]
  O* states = nullptr;         // [blocks, directions, padded, padded]
  float* z = nullptr;          // [blocks, directions, padded]
  float* whole = nullptr;      // [blocks]: decay of all of a block
  O* keys = nullptr;           // [blocks, kBlock, padded]: phi(k) in the order of the scan, or of tokens if two orders
  float* y = nullptr;          // [blocks, kBlock, padded], with two orders: the first one's sums in token order
  float* c = nullptr;          // [blocks, kBlock], likewise

 private:
  template <class Visitor>
  void Visit(const Size& size, const Visitor& visit) {
    const int64_t tokens = size.blocks * kBlock, states_each = size.blocks * size.directions;
    visit(units, MixerUnit(), size.blocks);
    visit(states, O(), states_each * size.padded * size.padded);
    visit(z, float(), states_each * size.padded);
    visit(whole, float(), size.blocks);
    visit(keys, O(), size.directions == 2 ? tokens * size.padded : 0);
    visit(y, float(), size.orders == 2 ? tokens * size.padded : 0);
    visit(c, float(), size.orders == 2 ? tokens : 0);
  }
};

// Buffers of one thread for one block.
template <typename O>
struct ChunkTiles {
  // Running states: float64, for those of float32 lose digits over tens of thousands of tokens; with bfloat16 operands
  // these digits are not there to be lost.
  using Sum = std::conditional_t<std::is_same_v<O, float>, double, float>;

  ChunkTiles(CpuContext& context, int thread, int64_t padded, int64_t product_bytes) {
    ScratchPlan plan;
    for (int pass = 0; pass < 2; ++pass) {
      const auto visit = [&](auto*& array, int64_t count) {
        using Element = std::remove_reference_t<decltype(*array)>;
        pass == 0 ? plan.Add<Element>(count) : static_cast<void>(array = plan.Take<Element>(count));
      };
      visit(k, kBlock * padded);
      visit(q, kBlock * padded);
      visit(a, kBlock * (kBlock + 2 * padded));
      visit(b, (kBlock + 2 * padded) * padded);
      visit(scores, kBlock * kBlock);
      visit(y, kBlock * padded);
      visit(running, padded * padded);
      visit(product, product_bytes);
      if (pass == 0) plan.Use(context.Reserve(thread, plan.bytes()));
    }
  }

  O *k, *q;       // [kBlock, padded]
  O *a, *b;       // operands of products
  float* scores;  // [kBlock, kBlock]
  float* y;       // [kBlock, padded]
  Sum* running;   // a part of one state
  std::byte* product;
};

}  // namespace lion::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
