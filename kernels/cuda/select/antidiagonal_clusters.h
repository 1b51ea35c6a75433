// SPDX-License-Identifier: Apache-2.0
// XAttention's products by clusters of thread blocks and the copy engine, compute capability 9.0.
#pragma once

#include <cuda.h>

#include "select/antidiagonal.h"

namespace headscope::kernels::selection {

struct AntidiagonalClusterParams {
  CUtensorMap q;  // [sequence, head, group, row of the group, component], boxes of a row's 64 components of 128 groups
  CUtensorMap k;
  AntidiagonalParams shape;  // whose tensors and `progress` are not looked at
};

// With fewer keys single blocks, which take tiles as they come, are left what they win on an H200: 32K with stride 8,
// in 1.19 ms against 1.25 to 1.5. Given up for one bound: pairs took 13 % less with 8K and stride 16, 5 % with 16K and
// stride 8, 2 and 5 % with 32K and strides 16 and 32. Beyond it pairs take 3.85 ms for 4.45 with 64K and stride 8, with
// stride 16 1 % more, and 15.3 for 18.9 and 8.5 for 10.2 with 128K.
constexpr int32_t kLeastClusterKeys = 49152;

// Whether these products take the call: rows come in whole groups, components in slabs of 64, and there is more than
// one tile of queries, as a pair's second block has nothing to do otherwise.
constexpr bool ClustersTake(const AntidiagonalParams& p) {
  const int32_t in_group = (1 << p.stride_log2) - 1;
  return p.num_visible_keys >= kLeastClusterKeys && p.NumQueryGroups() > kTileQueryGroups && p.head_dim % 64 == 0 &&
         (p.seq_q & in_group) == 0 && (p.num_visible_keys & in_group) == 0;
}

cudaError_t LaunchAntidiagonalClusters(const AntidiagonalClusterParams& params, bool is_bf16, int num_multiprocessors,
                                       cudaStream_t stream);

}  // namespace headscope::kernels::selection
