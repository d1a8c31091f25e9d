#include "engine/patch_order.h"

namespace lion {
namespace {

int32_t Token(int64_t row, int64_t column, int64_t columns) { return static_cast<int32_t>(1 + row * columns + column); }

}  // namespace

void RowSerpentine(int64_t rows, int64_t columns, std::span<int32_t> places) {
  places[0] = 0;
  size_t place = 1;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < columns; ++i) places[place++] = Token(row, row % 2 == 0 ? i : columns - 1 - i, columns);
  }
}

void ColumnSerpentine(int64_t rows, int64_t columns, std::span<int32_t> places) {
  places[0] = 0;
  size_t place = 1;
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t i = 0; i < rows; ++i) places[place++] = Token(column % 2 == 0 ? i : rows - 1 - i, column, columns);
  }
}

}  // namespace lion
