// The two scans of the "S" patch order (docs/mathematics.md, section 2).
#pragma once

#include <cstdint>
#include <span>

namespace lion {

// places[i] = the token at the i-th place of the scan, for an image of rows x columns patches; both have 1 + rows *
// columns elements, and the class token (0) comes first in both. By rows: even rows left to right, odd rows right to
// left. By columns: even columns downwards, odd columns upwards.
void RowSerpentine(int64_t rows, int64_t columns, std::span<int32_t> places);
void ColumnSerpentine(int64_t rows, int64_t columns, std::span<int32_t> places);

}  // namespace lion
