// SPDX-License-Identifier: Apache-2.0
// What the decode kernels are called with: plain data, so that the calls' checks and the kernels share one description.
#pragma once

#include <vector_types.h>

#include <cstdint>

#include "divisor.h"
#include "head_sinks.h"

namespace headscope::kernels::decode {

constexpr int kMaxRank = 128;      // components of SparQ's estimate: at most head_dim
constexpr int kMaxKept = 1024;     // tokens that SparQ attends
constexpr int kMaxGroup = 16;      // query heads of a KV head in SparQ
constexpr int kMaxDenseGroup = 8;  // query heads that one pass of a tensor-core tile takes
constexpr int kSparqThreads = 256;
constexpr int kSparqWarps = kSparqThreads / 32;
constexpr int kSpanTokens = 16 * kSparqThreads;
constexpr int kSparqSharedBytes = 7296;  // of a block of SparqKernel, before the plan's parts
constexpr int kMostVotes = 160;          // keys wanted of a block's: beyond, a vote of 256 would cut few
constexpr int kMaxFewHeads = 8;          // query heads of a KV head that a ring of tiles serves
// How the scores are made. Each way is a kernel of its own: what one does not need takes neither registers nor room in
// the instruction cache, which a step of many short phases would otherwise overflow.
enum class SparqPath : int32_t {
  // Component-major K and one query head a KV head: by bulk copies (compute capability 9.0), scores never leave the
  // registers.
  kOneHead,
  kOneItem,   // the same where no multiprocessor gets a second item: fewer and larger crews
  kFewHeads,  // component-major K and up to kMaxFewHeads query heads: through a ring to the tensor cores
  kManyHeads  // more heads, or whole rows of K: from memory to the tensor cores
};

// With one query head a KV head a block is some crews and a warp that feeds them from a ring of stages, component rows
// of a span. It runs ahead by at most so many items. A deeper ring leaves less L1, through which attended rows come.
// Up to 16 warps a block have 128 registers a thread, which the attention of a crew of 128 wants; more have 96. Where a
// block has one item there is nobody to take turns with, and one crew of 256 has each step done sooner.
constexpr bool Streams(SparqPath path) {
  return path == SparqPath::kOneHead || path == SparqPath::kOneItem;
}
// Whether a KV head's spans go as messages (message.cuh) to the block of its last one, which merges them: such blocks
// are all resident and have one item each. Otherwise the last to count its span merges, whichever that is.
constexpr bool SendsCandidates(SparqPath path) {
  return path == SparqPath::kOneItem;
}
constexpr int StreamCrews(SparqPath path) {
  return path == SparqPath::kOneItem ? 1 : 3;
}
constexpr int CrewThreads(SparqPath path) {
  return path == SparqPath::kOneHead ? 128 : kSparqThreads;
}
constexpr int StreamThreads(SparqPath path) {
  return StreamCrews(path) * CrewThreads(path) + 32;
}
constexpr int MaxStages(SparqPath path) {
  return path == SparqPath::kOneItem ? 4 : 3;
}
constexpr int kCrewSharedBytes = 3584;  // of a crew, before the plan's parts
constexpr int kCrewSelectBytes = 3200;  // of these, what selecting takes
constexpr int kStageRows = 4;
constexpr int kStageBytes = kStageRows * kSpanTokens * 2;
constexpr int kMaxStages = 4;
constexpr int kItemsAhead = 4;
constexpr int kMaxStreamDim = 128;
constexpr int kStreamSharedBytes = 5632;  // of a block, before its crews' parts
// With more query heads a block's ring is filled by batches: 8 rows of a tile of so many tokens for each warp. More
// batches take from L1, through which attended rows come, and delay these.
constexpr int kTileTokens = 128;
constexpr int kMaxBatches = 2;

// One token per sequence against its cache. Strides count elements; rows are contiguous.
struct DecodeOperands {
  const void* q;
  const void* k;
  const void* v;
  void* o;
  int64_t q_batch, q_head, k_batch, k_head, k_row, v_batch, v_head, v_row, o_batch, o_head;
  int32_t num_kv_heads, group, seq_k;  // group: query heads per KV head
  float scale;
};

struct AppendParams {
  const void* k;
  const void* v;
  void* kt;     // may be null
  float* mean;  // may be null
  int64_t k_batch, k_head, k_row, v_batch, v_head, v_row, kt_batch, kt_head, kt_component;
  int32_t lists, num_kv_heads, head_dim, seq_k;
};

constexpr int kDenseWarps = 8;   // of a block, at most
constexpr int kPartsAtOnce = 5;  // that a thread asks for in one trip to memory when it merges

// A pass is one KV head with at most kMaxDenseGroup of its query heads, a step so many tokens as a block takes at once.
// The steps of all passes, one after the other and fewer than 2^31, are dealt out to the blocks in equal contiguous
// shares, or each pass's among as many blocks (ShareOut). Blocks that share a pass send each other their parts.
struct DenseParams {
  DecodeOperands x;
  float* lse;      // [batch, num_qo_heads], may be null
  char* messages;  // [blocks, 2, message_bytes], zero between calls: parts of the block's first pass and of its last
  int32_t message_bytes;
  int32_t passes_per_list, heads_per_pass, passes;
  int32_t steps;  // of a pass
  // Among whom a pass's steps are shared out; 0: the steps of all passes are, among all blocks.
  int32_t blocks_per_pass;
  int32_t share, longer;  // steps of a block's share; so many of the blocks, the first, have one step more
  Divisor by_passes_per_list, by_kv_heads, by_steps, by_blocks_per_pass, by_share, by_longer_share;
  int32_t blocks, warps, stages, shared_bytes;
  int32_t leaves_cache_first;  // K and V are the first to leave L2 again: see PlanDense
  float soft_cap;
  float* row_max;  // as lse
};

// A launch's parameters and sinks. Half a KiB more of them costs a short step 1 to 2 %, so steps without sinks are
// launched without.
template <typename Params>
struct WithSinks : Params {
  HeadSinks sinks;
};

// Sizes of one SparQ launch. Item i is span i % num_spans of list (KV head) i / num_spans. Byte offsets count from the
// start of a crew's shared memory; a block of one crew has its ring there as well.
struct SparqPlan {
  int32_t span_tokens, num_spans;  // tokens of an item, at most kSpanTokens; items of one KV head
  int32_t lists, items;            // batch * num_kv_heads; lists * num_spans
  Divisor by_spans, by_kv_heads;   // num_spans and num_kv_heads
  int32_t blocks;                  // all resident and a multiple of num_spans if `waits`
  SparqPath path;
  int32_t waits;                 // the spans of a KV head wait for each other's softmax
  int32_t batches;               // of a ring of tiles; 0: there is none
  int32_t stages;                // of a ring that a warp feeds; 0: there is none
  int32_t rows;                  // component rows of an item, with those that pad the last batch or stage
  int32_t steps, head_tiles;     // products of a tile: steps of 16 components, tiles of 8 query heads; or 0
  int32_t selected, local;       // tokens that the scores choose, and newest tokens that are kept anyway
  int32_t list_stride;           // entries of a list of candidates: at least `selected`, a multiple of 8
  int32_t score_pitch;           // floats between the heads' rows of scores
  int32_t query, query_bytes;    // three: of the item before, this and the next; with a feeding warp this one's alone
  int32_t weight, weight_bytes;  // two: of this item and the next; with a feeding warp none
  int32_t list_key, list_index, list_source, token, ring, scores;
  int32_t merged;             // the warps' results; with several query heads in the place of the scores
  int32_t crews, crew_bytes;  // of a block: where the first crew's shared memory begins, and what each has
  int32_t shared_bytes;
};

struct SparqParams {
  DecodeOperands x;
  SparqPlan plan;
  const void* kt;  // component-major K, or null
  int64_t kt_batch, kt_head, kt_component;
  const float* mean_value;   // [batch, num_kv_heads, head_dim], may be null
  int32_t* chosen;           // [lists, num_tokens], may be null
  int32_t rank, num_tokens;  // num_tokens: the row length of `chosen`
  // Scratch. A span's candidates are its best tokens and perhaps some more, in ascending order, padded with kNoToken.
  // Where they are sent (SendsCandidates), they and the softmax are words, zero between calls.
  uint32_t* candidate_key;   // [lists, num_spans, list_stride], 32-byte aligned
  int32_t* candidate_token;  // same
  float* candidate_value;    // [lists, num_spans, list_stride, group], for groups alone: each head's probability
  float4* span_softmax;      // [lists, num_spans, group]: see SoftmaxOfWarp
  float* local_share;        // [lists, group], for groups alone: the probability of the local window
  // Zero between calls. [lists]: spans that have left their softmax, and then their candidates. Behind it the number of
  // items that were asked for.
  uint32_t* finished;
};

}  // namespace headscope::kernels::decode
