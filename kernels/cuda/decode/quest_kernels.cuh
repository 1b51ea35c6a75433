// SPDX-License-Identifier: Apache-2.0
// Quest's bounds of pages, and the pages' scores.
#pragma once

#include "decode/page_scores.cuh"
#include "decode/quest_params.h"
#include "dependent_launch.cuh"

namespace headscope::kernels::decode {

constexpr int kQuestThreads = 256;
constexpr int kPagesAtOnce = 8;  // loads of a lane under way

// A page a warp: as many lanes as a row has 16-byte pieces, so that a warp reads two or four rows at once.
template <typename T, int D>
__global__ void __launch_bounds__(kQuestThreads) PageBoundsKernel(const __grid_constant__ QuestParams p) {
  constexpr int kLanes = D / 8, kRows = 32 / kLanes;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int list = static_cast<int>(blockIdx.y);
  const int page = p.first_page + static_cast<int>(blockIdx.x) * (kQuestThreads / 32) + warp;
  if (page >= p.num_pages) return;
  const int sequence = list / p.x.num_kv_heads, kv_head = list % p.x.num_kv_heads;
  const T* const k = static_cast<const T*>(p.x.k) + sequence * p.x.k_batch + kv_head * p.x.k_head + lane % kLanes * 8;
  const int64_t begin = int64_t{page} * p.page_size;
  const int64_t end = min(begin + p.page_size, int64_t{p.x.seq_k});
  float least[8], largest[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    least[i] = -kNegativeInfinity;
    largest[i] = kNegativeInfinity;
  }
#pragma unroll 8
  for (int64_t token = begin + lane / kLanes; token < end; token += kRows) {
    float key[8];
    Unpack(LoadStreaming(k + token * p.x.k_row), key, T());
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      least[i] = fminf(least[i], key[i]);
      largest[i] = fmaxf(largest[i], key[i]);
    }
  }
#pragma unroll
  for (int offset = kLanes; offset < 32; offset *= 2) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      least[i] = fminf(least[i], __shfl_xor_sync(kAllLanes, least[i], offset));
      largest[i] = fmaxf(largest[i], __shfl_xor_sync(kAllLanes, largest[i], offset));
    }
  }
  if (lane >= kLanes) return;
  T* const to = static_cast<T*>(p.bounds) + list * p.bounds_list + int64_t{page} * 2 * D + lane * 8;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    Store(to + i, least[i]);
    Store(to + D + i, largest[i]);
  }
}

// Scores of pages. Eight rows a lane are read ahead of their use, and their sums across lanes share their shuffles.
template <typename T, int D>
__global__ void __launch_bounds__(kQuestThreads, kScoreBlocks) PageScoresKernel(const __grid_constant__ QuestParams p) {
  constexpr int kLanes = 2 * D / 8, kTeams = 32 / kLanes, kStep = kPagesAtOnce * kTeams;
  static_assert(kLanes <= 32, "a warp reads whole rows");
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int list = static_cast<int>(blockIdx.y), team = lane / kLanes, part = lane % kLanes;
  const int begin = static_cast<int>(blockIdx.x) * p.pages_each, end = min(begin + p.pages_each, p.num_pages);
  cuda::LetNextKernelStart();
  const T* const rows = static_cast<const T*>(p.bounds) + list * p.bounds_list + part * 8;

  const uint64_t cache_policy = CachePolicy(p.leaves_cache_first);
  uint4 raw[kPagesAtOnce];
  const auto load = [&](int base) {
#pragma unroll
    for (int u = 0; u < kPagesAtOnce; ++u) {
      const int page = min(base + u * kTeams + team, end - 1);
      raw[u] = LoadStreaming(rows + int64_t{page} * 2 * D, cache_policy);
    }
  };
  int base = begin + warp * kStep;
  if (base < end) load(base);

  float factor[8];
  PageFactors<T, D>(p, list / p.x.num_kv_heads, list % p.x.num_kv_heads, part, factor);

#pragma unroll 1
  while (base < end) {
    float dot[kPagesAtOnce];
#pragma unroll
    for (int u = 0; u < kPagesAtOnce; ++u) dot[u] = PartOfScore<T>(factor, raw[u]);
    const int next = base + kQuestThreads / 32 * kStep;
    if (next < end) load(next);
    const int mine = SumOfParts<kPagesAtOnce, kLanes>(dot);
    const int page = base + mine * kTeams + team;
    if (lane % (kLanes / kPagesAtOnce) == 0 && page < end) p.scores[int64_t{list} * p.num_pages + page] = dot[0];
    base = next;
  }
}

template <typename T>
cudaError_t LaunchPageBounds(const QuestParams& p, int head_dim, cudaStream_t stream) {
  constexpr int kPages = kQuestThreads / 32;
  const dim3 grid(static_cast<unsigned>((p.num_pages - p.first_page + kPages - 1) / kPages),
                  static_cast<unsigned>(p.lists));
  if (head_dim == 64) {
    PageBoundsKernel<T, 64><<<grid, kQuestThreads, 0, stream>>>(p);
  } else {
    PageBoundsKernel<T, 128><<<grid, kQuestThreads, 0, stream>>>(p);
  }
  return cudaGetLastError();
}

template <typename T>
cudaError_t LaunchPageScores(const QuestParams& p, int head_dim, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((p.num_pages + p.pages_each - 1) / p.pages_each),
                  static_cast<unsigned>(p.lists));
  if (head_dim == 64) {
    PageScoresKernel<T, 64><<<grid, kQuestThreads, 0, stream>>>(p);
  } else {
    PageScoresKernel<T, 128><<<grid, kQuestThreads, 0, stream>>>(p);
  }
  return cudaGetLastError();
}

}  // namespace headscope::kernels::decode
