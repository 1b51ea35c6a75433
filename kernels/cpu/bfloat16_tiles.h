// SPDX-License-Identifier: Apache-2.0
// Products of bfloat16 by the matrix unit of CPUs that have one (AMX: since Sapphire Rapids), where an instruction
// multiplies 16 rows of 32 components with 16 columns of as many. Sums are fp32, in that instruction's order.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace headscope::kernels::internal {

// Whether this machine has it and the system lets this process use it, which is asked for by the first call.
bool HasBFloat16Tiles();

// Rows and components of a tile; what ScorePanelByTiles takes are whole ones.
inline constexpr int32_t kTileRowsOfProduct = 16, kTileComponents = 32;

// Rows [num_rows, width] and a panel of BFloat16Keys.
struct TileTerm {
  const uint16_t* rows;
  const uint16_t* panel;
};

// scores[i * ld + j] = scale * the sum over the terms of row_i . column_j for i < num_rows and the panel's kPanelLanes
// columns.
void ScorePanelByTiles(std::span<const TileTerm> terms, int32_t num_rows, int32_t width, float scale, float* scores,
                       int64_t ld);

// The same of rows and columns that are sums of three parts, largest first: of their nine products the six that an fp32
// product has room for.
using TileParts = std::array<const uint16_t*, 3>;
void ScorePanelInParts(const TileParts& rows, const TileParts& panels, int32_t num_rows, int32_t width, float scale,
                       float* scores, int64_t ld);

}  // namespace headscope::kernels::internal
