// SPDX-License-Identifier: Apache-2.0
// The upkeep of what SparQ keeps beside the cache, from some token on: how it is cut into blocks, and its launch.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "decode/decode_params.h"

namespace headscope::kernels::decode {

constexpr int kUpkeepThreads = 256;
constexpr int kVectorElements = 8;  // of 16 bytes
// Of a tile, which begins at a multiple of it: a component's tokens are a line of 128 bytes.
constexpr int kTileKeys = 64;
constexpr int kMostParts = 64;  // of a list's values, each of which a block sums

// Tokens [first_token, seq_k) are new. Without kt there are no tiles, and without a mean no parts.
struct UpkeepParams : AppendParams {
  float* partial = nullptr;  // [lists, parts, head_dim]: sums of values
  int32_t first_token = 0;
  // The plan's.
  int32_t first_tile = 0, tiles = 0;
  int32_t parts = 0, part_tokens = 0;
};

// The parts of so many values: whole tiles, so that few tokens are not spread over blocks that each wait for memory
// once.
inline int32_t PartTokens(int32_t num_tokens) {
  return static_cast<int32_t>((int64_t{num_tokens} + kMostParts * kTileKeys - 1) / (kMostParts * kTileKeys) *
                              kTileKeys);
}
inline int32_t NumParts(int32_t num_tokens) {
  const int32_t each = PartTokens(num_tokens);
  return (num_tokens - 1) / each + 1;
}
// Of any update of a cache of so many tokens.
inline int32_t MostParts(int32_t num_tokens) {
  return std::min((num_tokens - 1) / kTileKeys + 1, kMostParts);
}

// The tokens' share of the plan, from first_token and seq_k.
inline void PlanUpkeep(UpkeepParams* params) {
  if (params->kt != nullptr) {
    params->first_tile = params->first_token / kTileKeys;
    params->tiles = (params->seq_k - 1) / kTileKeys + 1 - params->first_tile;
  }
  if (params->mean != nullptr) {
    params->part_tokens = PartTokens(params->seq_k - params->first_token);
    params->parts = NumParts(params->seq_k - params->first_token);
  }
}

// The first CUDA error, or cudaSuccess. head_dim 64 or 128.
template <typename T>
cudaError_t LaunchUpkeep(const UpkeepParams& params, cudaStream_t stream);

}  // namespace headscope::kernels::decode
