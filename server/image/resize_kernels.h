// Inner loops of the resizer, compiled for several instruction sets and chosen at run time (Highway). All give the same
// bits. Horizontal work runs on blocks of 16 rows, transposed, so that one vector holds the same byte of 16 rows and no
// sum crosses lanes.
#pragma once

#include <cstdint>

#include "server/image/resample_weights.h"

namespace lion {

constexpr int64_t kBlockRows = 16;

constexpr int64_t RoundUp16(int64_t n) { return (n + 15) / 16 * 16; }

// columns[i * 16 + r] = rows[r][i] for i < bytes. Reads rows and writes columns up to RoundUp16(bytes).
void TransposeRows(const uint8_t* const rows[kBlockRows], int64_t bytes, uint8_t* columns);

// The way back: rows[r][i] = columns[i * 16 + r]. Reads and writes up to RoundUp16(bytes).
void TransposeColumns(const uint8_t* columns, int64_t bytes, uint8_t* const rows[kBlockRows]);

// out[(o * 3 + c) * 16 + r] = the weighted sum of columns[((weights.begin[o] - first_column + j) * 3 + c) * 16 + r]
// over j, rounded to 8 bits, for every output o. `columns` starts at source column first_column.
void ResampleColumns(const uint8_t* columns, int64_t first_column, const ResampleWeights& weights, uint8_t* out);

// out[i] = the weighted sum of rows[j][i] over j < count, rounded to 8 bits, for i < bytes. Reads rows and writes out
// up to RoundUp16(bytes).
void ResampleRows(const uint8_t* const* rows, const int32_t* weights, int64_t count, int64_t bytes, uint8_t* out);

}  // namespace lion
