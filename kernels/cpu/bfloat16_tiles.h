// SPDX-License-Identifier: Apache-2.0
// Products of bfloat16 by the matrix unit of CPUs that have one (AMX: since Sapphire Rapids), where an instruction
// multiplies 16 rows of 32 components with 16 columns of as many. Sums are fp32, in that instruction's order.
#pragma once

#include <cstdint>

namespace headscope::kernels::internal {

// Whether this machine has it and the system lets this process use it, which is asked for by the first call.
bool HasBFloat16Tiles();

// Rows and components of a tile; what ScorePanelByTiles takes are whole ones.
inline constexpr int32_t kTileRowsOfProduct = 16, kTileComponents = 32;

// scores[i * ld + j] = scale * q_i . k_j for i < num_rows and the kPanelLanes columns of a panel of BFloat16Keys.
void ScorePanelByTiles(const uint16_t* q, int32_t num_rows, const uint16_t* panel, int32_t width, float scale,
                       float* scores, int64_t ld);

}  // namespace headscope::kernels::internal
