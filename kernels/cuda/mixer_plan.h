// How a ragged batch is cut into the mixer's work: made on the host once a batch, for all layers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lion::cuda {

// Query rows of one block of threads, and the rows of keys that it holds at a time.
inline constexpr int kMixerTile = 64;
// Tokens whose scores against each other are taken: longer sequences are cut into chunks of at most this many, with
// states between them; shorter ones are done in one kernel without states.
inline constexpr int kMixerWindow = 256;

// Tokens [begin + first, begin + first + count) of the sequence that is tokens [begin, begin + length) of the batch.
// `first` counts places of the scan.
struct MixerPart {
  int64_t begin;
  int32_t length;
  int32_t first;
  int32_t count;
  int32_t
      chunk;  // of a short tile: -1; of a chunk or its tile: its number; of a long sequence: that of its first chunk
};

struct MixerPlan {
  // short_tiles, chunks, long_tiles, long_sequences, one behind the other: to be copied to the device as they are.
  // Tiles and chunks follow each other in their sequence, sequences as in the batch.
  std::vector<MixerPart> parts;
  int64_t short_tiles = 0;     // kMixerTile tokens of a sequence of at most kMixerWindow
  int64_t chunks = 0;          // chunk_tokens tokens of a longer one
  int64_t long_tiles = 0;      // kMixerTile tokens of a chunk
  int64_t long_sequences = 0;  // whole; `count` is its chunks
  int chunk_tokens = 0;
  int64_t tokens = 0;
};

// offsets [n + 1], as in MixerArgs. chunk_tokens: a multiple of kMixerTile, at most kMixerWindow; more means fewer
// states to move and more scores to compute. Where a sequence is cut depends on its own length alone. `plan` keeps its
// memory.
void PlanMixer(std::span<const int64_t> offsets, int chunk_tokens, MixerPlan& plan);

// All sequences in tiles of kMixerTile tokens, as the short ones: for SoftmaxAttention.
void PlanTiles(std::span<const int64_t> offsets, std::vector<MixerPart>& tiles);

}  // namespace lion::cuda
