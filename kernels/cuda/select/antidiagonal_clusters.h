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

// With fewer keys, which L2 holds, single blocks that take tiles as they come are as fast or faster: 32K on an H200
// takes them 1.19 ms, pairs 1.25 to 1.5; 64K takes pairs 3.85 ms, them 4.45.
constexpr int32_t kLeastClusterKeys = 49152;

// Whether these products take the call: rows come in whole groups, components in slabs of 64.
constexpr bool ClustersTake(const AntidiagonalParams& p) {
  const int32_t in_group = (1 << p.stride_log2) - 1;
  return p.num_visible_keys >= kLeastClusterKeys && p.head_dim % 64 == 0 && (p.seq_q & in_group) == 0 &&
         (p.num_visible_keys & in_group) == 0;
}

cudaError_t LaunchAntidiagonalClusters(const AntidiagonalClusterParams& params, bool is_bf16, int num_multiprocessors,
                                       cudaStream_t stream);

}  // namespace headscope::kernels::selection
