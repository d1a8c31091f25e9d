#include "server/image/resize.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "server/image/out_of_memory.h"
#include "server/image/resample_weights.h"
#include "server/image/resize_kernels.h"

namespace lion {

struct Resizer::State {
  ResizeGeometry geometry;
  std::optional<ResampleWeights> across;  // absent: the axis keeps its size
  std::optional<ResampleWeights> down;
  int64_t first_column = 0;  // source columns and rows that the part needs
  int64_t end_column = 0;
  int64_t first_row = 0;
  int64_t end_row = 0;
  int64_t source_bytes = 0;  // of a source row, padded for vectors
  int64_t part_bytes = 0;    // of a row of the part, padded for vectors

  std::vector<uint8_t> strip;          // [kBlockRows, source_bytes]: rows being written by the decoder
  std::vector<uint8_t> columns;        // the strip's needed columns, transposed
  std::vector<uint8_t> result;         // the part's columns, transposed
  std::vector<uint8_t> spare;          // [part_bytes]: takes the rows that a short last block does not have
  std::vector<uint8_t> ring;           // [ring_rows, part_bytes]: rows after the horizontal pass
  int64_t ring_rows = 0;               // the most rows one output needs, plus a block
  std::vector<uint8_t> out_row;        // [part_bytes]
  std::vector<const uint8_t*> window;  // the ring rows of one output
  int64_t next_output = 0;             // rows of the part that are finished
  RgbImage part;

  uint8_t* RingRow(int64_t y) { return ring.data() + y % ring_rows * part_bytes; }
  void Block(const uint8_t* source, int64_t stride, int64_t first, int64_t count);
  void Horizontal(const uint8_t* source, int64_t stride, int64_t first, int64_t count);
  void Vertical(int64_t rows_done);
};

// Takes source rows first .. first + count - 1, count <= kBlockRows.
void Resizer::State::Block(const uint8_t* source, int64_t stride, int64_t first, int64_t count) {
  const int64_t skip = std::max<int64_t>(first_row - first, 0);
  const int64_t end = std::min(first + count, end_row);
  if (first + skip >= end) return;
  Horizontal(source + skip * stride, stride, first + skip, end - first - skip);
  Vertical(end);
}

void Resizer::State::Horizontal(const uint8_t* source, int64_t stride, int64_t first, int64_t count) {
  if (!across) {
    const size_t bytes = static_cast<size_t>(geometry.part.width * 3);
    for (int64_t r = 0; r < count; ++r) {
      std::memcpy(RingRow(first + r), source + r * stride + geometry.left * 3, bytes);
    }
    return;
  }
  std::array<const uint8_t*, kBlockRows> in;
  std::array<uint8_t*, kBlockRows> out;
  for (int64_t r = 0; r < kBlockRows; ++r) {
    in[r] = source + std::min(r, count - 1) * stride + first_column * 3;
    out[r] = r < count ? RingRow(first + r) : spare.data();
  }
  TransposeRows(in.data(), (end_column - first_column) * 3, columns.data());
  ResampleColumns(columns.data(), first_column, *across, result.data());
  TransposeColumns(result.data(), geometry.part.width * 3, out.data());
}

// Finishes the rows of the part that need no source row from rows_done on.
void Resizer::State::Vertical(int64_t rows_done) {
  const int64_t bytes = geometry.part.width * 3;
  while (next_output < geometry.part.height) {
    uint8_t* to = part.row(next_output);
    if (!down) {
      const int64_t y = geometry.top + next_output;
      if (y >= rows_done) return;
      std::memcpy(to, RingRow(y), static_cast<size_t>(bytes));
    } else {
      const int64_t begin = down->begin[next_output];
      const int64_t count = down->count[next_output];
      if (begin + count > rows_done) return;
      for (int64_t j = 0; j < count; ++j) window[j] = RingRow(begin + j);
      ResampleRows(window.data(), down->values.data() + next_output * down->stride, count, bytes, out_row.data());
      std::memcpy(to, out_row.data(), static_cast<size_t>(bytes));
    }
    ++next_output;
  }
}

int64_t ResizeMemoryBytes(const ResizeGeometry& geometry) {
  // Taps of one output along an axis: 4 source pixels, stretched by the scale when that makes the picture smaller.
  const auto taps = [](int64_t from, int64_t to) { return 4 * std::max<int64_t>(from / to + 1, 1) + 3; };
  const int64_t across = taps(geometry.source.width, geometry.resized.width);
  const int64_t down = taps(geometry.source.height, geometry.resized.height);
  const int64_t weights = geometry.part.width * (4 * across + 16) + geometry.part.height * (4 * down + 16);
  const int64_t blocks = kBlockRows * 3 * (2 * geometry.source.width + geometry.part.width + 32);
  const int64_t ring = (down + kBlockRows + 2) * (geometry.part.width + 6) * 3;
  return geometry.part.width * geometry.part.height * 3 + weights + blocks + ring;
}

absl::StatusOr<std::unique_ptr<Resizer>> Resizer::Create(const ResizeGeometry& geometry) {
  return WithinMemory("no memory to resize an image", [&] { return Allocate(geometry); });
}

absl::StatusOr<std::unique_ptr<Resizer>> Resizer::Allocate(const ResizeGeometry& geometry) {
  auto state = std::make_unique<State>();
  State& s = *state;
  s.geometry = geometry;
  absl::StatusOr<RgbImage> part = RgbImage::Create(geometry.part);
  if (!part.ok()) return part.status();
  s.part = *std::move(part);
  s.source_bytes = RoundUp16(geometry.source.width * 3) + 16;
  s.part_bytes = RoundUp16(geometry.part.width * 3);
  s.strip.resize(static_cast<size_t>(kBlockRows * s.source_bytes));
  s.first_column = geometry.left;
  s.end_column = geometry.left + geometry.part.width;
  if (geometry.source.width != geometry.resized.width) {
    s.across = ComputeBicubicWeights(geometry.source.width, geometry.resized.width, geometry.left, geometry.part.width);
    s.first_column = s.across->first_input;
    s.end_column = s.across->end_input;
    s.columns.resize(static_cast<size_t>(RoundUp16((s.end_column - s.first_column) * 3) * kBlockRows));
    s.result.resize(static_cast<size_t>(s.part_bytes * kBlockRows));
    s.spare.resize(static_cast<size_t>(s.part_bytes));
  }
  int64_t window = 1;
  s.first_row = geometry.top;
  s.end_row = geometry.top + geometry.part.height;
  if (geometry.source.height != geometry.resized.height) {
    s.down = ComputeBicubicWeights(geometry.source.height, geometry.resized.height, geometry.top, geometry.part.height);
    s.first_row = s.down->first_input;
    s.end_row = s.down->end_input;
    window = s.down->stride;
    s.window.resize(static_cast<size_t>(window));
    s.out_row.resize(static_cast<size_t>(s.part_bytes));
  }
  s.ring_rows = window + kBlockRows;
  s.ring.resize(static_cast<size_t>(s.ring_rows * s.part_bytes));
  return std::unique_ptr<Resizer>(new Resizer(std::move(state)));
}

Resizer::Resizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Resizer::~Resizer() = default;

uint8_t* Resizer::Row(int64_t y) { return state_->strip.data() + y % kBlockRows * state_->source_bytes; }

void Resizer::Done(int64_t y) {
  const int64_t in_block = y % kBlockRows + 1;
  if (in_block < kBlockRows && y + 1 < state_->geometry.source.height) return;
  state_->Block(state_->strip.data(), state_->source_bytes, y + 1 - in_block, in_block);
}

void Resizer::AddRows(const uint8_t* rows, int64_t stride, int64_t first, int64_t count) {
  state_->Block(rows, stride, first, count);
}

RgbImage Resizer::Take() { return std::move(state_->part); }

absl::StatusOr<RgbImage> ResizeImage(const RgbImage& source, const ResizeGeometry& geometry) {
  absl::StatusOr<std::unique_ptr<Resizer>> resizer = Resizer::Create(geometry);
  if (!resizer.ok()) return resizer.status();
  for (int64_t y = 0; y < source.height(); y += kBlockRows) {
    (*resizer)->AddRows(source.row(y), source.row_bytes(), y, std::min(kBlockRows, source.height() - y));
  }
  return (*resizer)->Take();
}

}  // namespace lion
