// SPDX-License-Identifier: Apache-2.0
// The compiled variants of the Hopper kernel for each dtype and (padded) head_dim, by what few calls ask for (Extras),
// one translation unit for each head_dim and kind. D192: v_head_dim 128, the heads of multi-head latent attention.
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

LaunchFunction LaunchRowMaxBf16D64, LaunchRowMaxBf16D128, LaunchRowMaxFp16D64, LaunchRowMaxFp16D128;

// For problems in which every head keeps what a causal rule leaves to it.
LaunchFunction LaunchDenseBf16D64, LaunchDenseFp16D64, LaunchDenseBf16D128, LaunchDenseFp16D128;
LaunchFunction LaunchDenseRowMaxBf16D64, LaunchDenseRowMaxFp16D64, LaunchDenseRowMaxBf16D128, LaunchDenseRowMaxFp16D128;

// Of lists, and in their place where every head keeps everything, or null.
struct LaunchPair {
  LaunchFunction* lists;
  LaunchFunction* dense;
};

struct Instance {
  DType dtype;
  int32_t head_dim;
  int32_t value_dim;
  int32_t tile_columns;    // keys of one tile
  int32_t rows_of_q_copy;  // query rows that come at once
  LaunchPair plain;
  LaunchPair row_max;            // where rows' largest scores are asked for
  LaunchFunction* rare;          // for problems with a soft cap, largest scores or not
  int32_t dense_rows = 0;        // of the items of dense kernels
  bool asks_the_device = false;  // it is worth a launch to find out on the device whether they may run
};

inline std::span<const Instance> Instances() {
  constexpr auto heads64 = [](DType dtype, LaunchPair plain, LaunchPair row_max, LaunchFunction* rare) -> Instance {
    return {.dtype = dtype,
            .head_dim = 64,
            .value_dim = 64,
            .tile_columns = 128,
            .rows_of_q_copy = 128,
            .plain = plain,
            .row_max = row_max,
            .rare = rare,
            .dense_rows = 192,
            .asks_the_device = true};
  };
  constexpr auto heads128 = [](DType dtype, LaunchPair plain, LaunchPair row_max, LaunchFunction* rare) -> Instance {
    return {.dtype = dtype,
            .head_dim = 128,
            .value_dim = 128,
            .tile_columns = 128,
            .rows_of_q_copy = 128,
            .plain = plain,
            .row_max = row_max,
            .rare = rare,
            .dense_rows = 128,
            .asks_the_device = false};
  };
  constexpr auto heads192 = [](DType dtype, LaunchFunction* plain, LaunchFunction* rare) -> Instance {
    return {.dtype = dtype,
            .head_dim = 192,
            .value_dim = 128,
            .tile_columns = 128,
            .rows_of_q_copy = 64,
            .plain = {plain, nullptr},
            .row_max = {rare, nullptr},
            .rare = rare};
  };
  constexpr auto heads256 = [](DType dtype, LaunchFunction* plain, LaunchFunction* rare) -> Instance {
    return {.dtype = dtype,
            .head_dim = 256,
            .value_dim = 256,
            .tile_columns = 64,
            .rows_of_q_copy = 64,
            .plain = {plain, nullptr},
            .row_max = {rare, nullptr},
            .rare = rare};
  };
  static constexpr Instance kInstances[] = {
      heads64(DType::kBFloat16, {LaunchBf16D64, LaunchDenseBf16D64}, {LaunchRowMaxBf16D64, LaunchDenseRowMaxBf16D64},
              LaunchRareBf16D64),
      heads128(DType::kBFloat16, {LaunchBf16D128, LaunchDenseBf16D128},
               {LaunchRowMaxBf16D128, LaunchDenseRowMaxBf16D128}, LaunchRareBf16D128),
      heads192(DType::kBFloat16, LaunchBf16D192, LaunchRareBf16D192),
      heads256(DType::kBFloat16, LaunchBf16D256, LaunchRareBf16D256),
      heads64(DType::kFloat16, {LaunchFp16D64, LaunchDenseFp16D64}, {LaunchRowMaxFp16D64, LaunchDenseRowMaxFp16D64},
              LaunchRareFp16D64),
      heads128(DType::kFloat16, {LaunchFp16D128, LaunchDenseFp16D128},
               {LaunchRowMaxFp16D128, LaunchDenseRowMaxFp16D128}, LaunchRareFp16D128),
      heads192(DType::kFloat16, LaunchFp16D192, LaunchRareFp16D192),
      heads256(DType::kFloat16, LaunchFp16D256, LaunchRareFp16D256),
  };
  return kInstances;
}

}  // namespace headscope::kernels::hopper
