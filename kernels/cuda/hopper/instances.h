// SPDX-License-Identifier: Apache-2.0
// The compiled variants of the Hopper kernel: two per dtype and (padded) head_dim, one of them with what few calls ask
// for (Traits::kRare), one translation unit for each head_dim and either. D192: v_head_dim 128, the heads of multi-head
// latent attention.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "hopper/kernel_params.h"
#include "kernels/attention_problem.h"

namespace headscope::kernels::hopper {

using LaunchFunction = cudaError_t(const KernelParams& params, int num_blocks, cudaStream_t stream);

LaunchFunction LaunchBf16D64, LaunchBf16D128, LaunchBf16D192, LaunchBf16D256;
LaunchFunction LaunchFp16D64, LaunchFp16D128, LaunchFp16D192, LaunchFp16D256;
LaunchFunction LaunchRareBf16D64, LaunchRareBf16D128, LaunchRareBf16D192, LaunchRareBf16D256;
LaunchFunction LaunchRareFp16D64, LaunchRareFp16D128, LaunchRareFp16D192, LaunchRareFp16D256;

// For problems in which every head keeps what a causal rule leaves to it.
LaunchFunction LaunchDenseBf16D64, LaunchDenseFp16D64, LaunchDenseBf16D128, LaunchDenseFp16D128;

struct Instance {
  DType dtype;
  int32_t head_dim;
  int32_t value_dim;
  int32_t tile_columns;    // keys of one tile
  int32_t rows_of_q_copy;  // query rows that come at once
  LaunchFunction* launch;
  LaunchFunction* launch_rare;   // for problems with a soft cap, and where rows' largest scores are asked for
  LaunchFunction* launch_dense;  // in place of `launch` where every head keeps everything, or null
  int32_t dense_rows;            // of its items
  bool asks_the_device;          // it is worth a launch to find that out on the device
};

inline std::span<const Instance> Instances() {
  static constexpr Instance kInstances[] = {
      {DType::kBFloat16, 64, 64, 128, 128, LaunchBf16D64, LaunchRareBf16D64, LaunchDenseBf16D64, 192, true},
      {DType::kBFloat16, 128, 128, 128, 128, LaunchBf16D128, LaunchRareBf16D128, LaunchDenseBf16D128, 128, false},
      {DType::kBFloat16, 192, 128, 128, 64, LaunchBf16D192, LaunchRareBf16D192, nullptr, 0, false},
      {DType::kBFloat16, 256, 256, 64, 64, LaunchBf16D256, LaunchRareBf16D256, nullptr, 0, false},
      {DType::kFloat16, 64, 64, 128, 128, LaunchFp16D64, LaunchRareFp16D64, LaunchDenseFp16D64, 192, true},
      {DType::kFloat16, 128, 128, 128, 128, LaunchFp16D128, LaunchRareFp16D128, LaunchDenseFp16D128, 128, false},
      {DType::kFloat16, 192, 128, 128, 64, LaunchFp16D192, LaunchRareFp16D192, nullptr, 0, false},
      {DType::kFloat16, 256, 256, 64, 64, LaunchFp16D256, LaunchRareFp16D256, nullptr, 0, false},
  };
  return kInstances;
}

}  // namespace headscope::kernels::hopper
