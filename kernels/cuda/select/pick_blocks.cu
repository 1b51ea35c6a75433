// SPDX-License-Identifier: Apache-2.0
// Block-sparse's one launch. See pooled_blocks.h.
#include <cuda_runtime.h>

#include <algorithm>

#include "select/pool_block.cuh"
#include "select/pooled_scores.cuh"
#include "shared_memory.h"

namespace headscope::kernels::selection {
namespace {

constexpr int kMostPoolTurns = 4;  // blocks of 64 rows that a warp pools of one piece of work

// What beside the rows of scores lies in shared memory.
struct PickShared {
  uint32_t largest_factors[kPickWarps];
  uint16_t candidates[kPickWarps][kMostCandidates];
  int32_t piece;
};

// The order of work. Group g holds stage g's pooling and stage g - lag's picks, evenly mixed. Pieces are taken in this
// order, so whoever waits for a stage's pooling waits for thread blocks that are running and wait for nobody.
struct Schedule {
  int32_t num_stages;
  int32_t pool_piece;  // blocks of 64 rows that a thread block pools at a time
  int32_t pools_per_stage;
  int32_t parts_per_head;   // picks
  int32_t picks_per_stage;  // of all heads of the stage
  int32_t lag;              // so many stages that as many pieces are under way as there are thread blocks

  __host__ __device__ int32_t PiecesPerGroup() const { return pools_per_stage + picks_per_stage; }
  __host__ __device__ int64_t NumPieces() const { return int64_t{num_stages + lag} * PiecesPerGroup(); }
};

__device__ void PoolPiece(const PooledBlocksParams& p, int32_t stage, int32_t begin, int32_t num_blocks) {
  const int32_t group_size = p.num_qo_heads / p.num_kv_heads;
  const int32_t sequence = stage / p.num_kv_heads;
  const int32_t kv_head = stage % p.num_kv_heads;
  const int64_t group_pieces = GroupPieces(p.head_dim);
  const int32_t end = min(begin + num_blocks, p.num_key_blocks + group_size * p.num_query_blocks);
  for (int32_t at = begin + static_cast<int32_t>(threadIdx.x) / 32; at < end; at += kPickWarps) {
    // Blocks of K, then those of Q.
    const bool is_key = at < p.num_key_blocks;
    const int32_t member = is_key ? 0 : (at - p.num_key_blocks) / p.num_query_blocks;
    const int32_t block = is_key ? at : (at - p.num_key_blocks) % p.num_query_blocks;
    const StridedTensor<const void>& tensor = is_key ? p.k : p.q;
    const int32_t head = is_key ? kv_head : kv_head * group_size + member;
    const int64_t list = is_key ? stage : int64_t{sequence} * p.num_qo_heads + head;
    const auto* const rows =
        static_cast<const uint16_t*>(tensor.data) + sequence * tensor.batch_stride + head * tensor.head_stride;
    uint4* const terms = (is_key ? p.k_terms : p.q_terms) +
                         list * TermGroups(is_key ? p.num_key_blocks : p.num_query_blocks) * group_pieces;
    PoolBlock({rows, tensor.row_stride, is_key ? p.num_visible_keys : p.seq_q, p.head_dim, p.is_bf16, terms,
               is_key ? p.k_factors + list * p.FactorPitch() : nullptr},
              block);
  }
}

// Picks for query blocks [first_block, first_block + num_rows) of a head.
__device__ void PickPiece(const PooledBlocksParams& p, int32_t num_rows, int64_t list, int64_t kv_list,
                          int32_t first_block, uint4* operands, PickShared& shared, int32_t& guess) {
  auto* const scores = reinterpret_cast<__half*>(operands + OperandPieces(num_rows, p.head_dim));
  const int32_t pitch = ScorePitch(p.num_key_blocks);
  const int num_queries = min(num_rows, p.num_query_blocks - first_block);
  auto num_causal = [&](int32_t query_block) {
    return (p.first_position + min((query_block + 1) * kPoolRows, p.seq_q) - 1) / kPoolRows + 1;
  };
  const int32_t num_keys = num_causal(first_block + num_queries - 1);
  const int32_t group_pieces = GroupPieces(p.head_dim);
  const uint4* const k_terms = p.k_terms + kv_list * TermGroups(p.num_key_blocks) * group_pieces;
  const float* const k_factors = p.k_factors + kv_list * p.FactorPitch();

  const int32_t first_group = first_block / kTermGroup;
  const uint4* const q_terms = p.q_terms + (list * TermGroups(p.num_query_blocks) + first_group) * group_pieces;
  LoadQueries(q_terms, num_queries, OperandPieces(num_rows, p.head_dim), p.head_dim, operands);
  // With the largest factor and both operands' largest terms a score is 2^15 in fp16.
  float largest = 0;
#pragma unroll 4
  for (int32_t key = static_cast<int32_t>(threadIdx.x); key < num_keys; key += kPickThreads) {
    largest = fmaxf(largest, __ldcg(k_factors + key));
  }
  const uint32_t largest_of_warp = __reduce_max_sync(kFullWarp, __float_as_uint(largest));  // never negative
  if (threadIdx.x % 32 == 0) shared.largest_factors[threadIdx.x / 32] = largest_of_warp;
  __syncthreads();
  const float norm =
      0x1p-23f / __uint_as_float(__reduce_max_sync(kFullWarp, shared.largest_factors[threadIdx.x % kPickWarps]));

  ScoreKeys(k_terms, k_factors, operands, num_keys, p.head_dim, num_rows, norm, pitch, scores);
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int query = warp; query < num_queries; query += kPickWarps) {
    const PairScore score_of{q_terms + query / kTermGroup * group_pieces + query % kTermGroup * 4, k_terms, k_factors,
                             p.head_dim, norm};
    const int64_t query_row = list * p.num_query_blocks + first_block + query;
    guess = PickRow(RowPick<PairScore>{reinterpret_cast<uint4*>(scores + query * pitch), shared.candidates[warp],
                                       num_causal(first_block + query), p.num_kept, guess, score_of,
                                       reinterpret_cast<uint8_t*>(p.bitmaps + query_row * p.words),
                                       p.words * static_cast<int32_t>(sizeof(uint64_t))});
  }
}

// Waits until `wanted` pieces of a stage are pooled, and sees what they wrote.
__device__ void AwaitPooled(int32_t* pooled, int32_t wanted) {
  if (threadIdx.x == 0) {
    while (*reinterpret_cast<volatile int32_t*>(pooled) < wanted) __nanosleep(100);
    __threadfence();
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kPickThreads, 1)
    PickBlocksKernel(const PooledBlocksParams p, const Schedule schedule, const int num_rows) {
  extern __shared__ uint4 operands[];
  __shared__ PickShared shared;
  const int32_t pieces_per_group = schedule.PiecesPerGroup();
  int32_t guess = 0;  // of where a row's cut lies: near the last one's
  while (true) {
    __syncthreads();  // whoever still reads the last piece's shared memory
    if (threadIdx.x == 0) shared.piece = atomicAdd(p.progress, 1);
    __syncthreads();
    const int32_t piece = shared.piece;
    if (piece >= schedule.NumPieces()) return;
    const int32_t group = piece / pieces_per_group;
    const int32_t place = piece % pieces_per_group;
    // Of the group's first n places n * picks / pieces hold picks.
    auto picks_before = [&](int32_t n) {
      return static_cast<int32_t>(int64_t{n} * schedule.picks_per_stage / pieces_per_group);
    };
    const int32_t pick = picks_before(place);
    if (picks_before(place + 1) == pick) {
      if (group >= schedule.num_stages) continue;
      PoolPiece(p, group, (place - pick) * schedule.pool_piece, schedule.pool_piece);
      __threadfence();
      __syncthreads();
      if (threadIdx.x == 0) atomicAdd(p.progress + 1 + group, 1);
    } else {
      const int32_t stage = group - schedule.lag;
      if (stage < 0) continue;
      AwaitPooled(p.progress + 1 + stage, schedule.pools_per_stage);
      const int32_t group_size = p.num_qo_heads / p.num_kv_heads;
      const int64_t list = int64_t{stage / p.num_kv_heads} * p.num_qo_heads + stage % p.num_kv_heads * group_size +
                           pick / schedule.parts_per_head;
      // The longest first: they take the longest.
      const int32_t part = schedule.parts_per_head - 1 - pick % schedule.parts_per_head;
      PickPiece(p, num_rows, list, stage, part * num_rows, operands, shared, guess);
    }
  }
}

size_t SharedBytes(int32_t queries, int32_t head_dim, int32_t num_key_blocks) {
  return static_cast<size_t>(OperandPieces(queries, head_dim)) * sizeof(uint4) +
         static_cast<size_t>(queries) * static_cast<size_t>(ScorePitch(num_key_blocks)) * sizeof(__half);
}

}  // namespace

int32_t QueryBlocksPerThreadBlock(const PooledBlocksParams& params, size_t shared_bytes) {
  for (const int32_t queries : {kMostTiles * kTileQueries, 2 * kTileQueries, kTileQueries, kFewestQueries}) {
    if (SharedBytes(queries, params.head_dim, params.num_key_blocks) + sizeof(PickShared) <= shared_bytes)
      return queries;
  }
  return 0;
}

int32_t MostKeyBlocks(int32_t head_dim, size_t shared_bytes) {
  const size_t operands = static_cast<size_t>(OperandPieces(kFewestQueries, head_dim)) * sizeof(uint4);
  const size_t row = (shared_bytes - operands - sizeof(PickShared)) / (kFewestQueries * sizeof(__half));
  return (static_cast<int32_t>(row) - kPitchPad) / kWarpScores * kWarpScores;
}

cudaError_t LaunchPickBlocks(const PooledBlocksParams& params, int32_t query_blocks_per_thread_block,
                             int num_multiprocessors, cudaStream_t stream) {
  auto num_pieces_of = [](int64_t count, int32_t piece) { return static_cast<int32_t>((count + piece - 1) / piece); };
  const int32_t group_size = params.num_qo_heads / params.num_kv_heads;
  Schedule schedule{};
  schedule.num_stages = params.NumStages();
  // Long pieces have fewer gaps between them; some four for every multiprocessor share the work out evenly.
  const int64_t blocks_per_stage = params.num_key_blocks + int64_t{group_size} * params.num_query_blocks;
  const int64_t turns = blocks_per_stage * schedule.num_stages / (int64_t{4} * num_multiprocessors * kPickWarps);
  schedule.pool_piece = static_cast<int32_t>(std::clamp<int64_t>(turns, 1, kMostPoolTurns)) * kPickWarps;
  schedule.pools_per_stage = num_pieces_of(blocks_per_stage, schedule.pool_piece);
  schedule.parts_per_head = num_pieces_of(params.num_query_blocks, query_blocks_per_thread_block);
  schedule.picks_per_stage = group_size * schedule.parts_per_head;
  schedule.lag = 1 + num_pieces_of(num_multiprocessors, schedule.PiecesPerGroup());
  cudaError_t error =
      cudaMemsetAsync(params.progress, 0, sizeof(int32_t) * static_cast<size_t>(1 + schedule.num_stages), stream);
  if (error == cudaSuccess) error = AllowSharedMemory(PickBlocksKernel);
  if (error != cudaSuccess) return error;
  const size_t shared_bytes = SharedBytes(query_blocks_per_thread_block, params.head_dim, params.num_key_blocks);
  const auto grid = static_cast<unsigned>(std::min(int64_t{num_multiprocessors}, schedule.NumPieces()));
  PickBlocksKernel<<<grid, kPickThreads, shared_bytes, stream>>>(params, schedule, query_blocks_per_thread_block);
  return cudaGetLastError();
}

}  // namespace headscope::kernels::selection
