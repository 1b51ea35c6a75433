// SPDX-License-Identifier: Apache-2.0
// Exact attention of one chunk of query rows over everything up to it, with the log-sum-exp of every row.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>

#include "model/attention_backend.h"
#include "network/row_blocks.h"

namespace headscope::model {

struct AttentionResult {
  at::Tensor output;  // [num_qo_heads, rows, v_head_dim], q's type
  at::Tensor lse;     // [num_qo_heads, rows] fp32, natural log
};

// q [num_qo_heads, rows, head_dim]; k [num_kv_heads, tokens, head_dim], v [.., v_head_dim] of one type and device; row
// i stands at position tokens - rows + i and sees the keys up to itself: all of them, or with a window the newest
// `window` (0: none). K and V are never repeated in memory; where their sizes differ, the smaller is copied with zeros
// after it. With a window that hides a key, memory in proportion to rows * (rows + window), but for 16-bit numbers on a
// GPU, which FlashAttention-2 takes where heads have at most 256 components, in eights.
AttentionResult AttendCausal(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                             int64_t window = 0);

// The same where scores are capped, soft_cap * tanh(scale * q.k / soft_cap), which no fused kernel does: block by block
// of rows in fp32, 64 MB of scores at a time, or one row's.
AttentionResult AttendCapped(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                             double soft_cap, int64_t window = 0);

// AttendCausal within blocks of `chunk` positions: no row sees a key of a block before its own.
AttentionResult AttendChunks(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                             int64_t chunk);

// AttendCausal where each row attends to the tokens `selected` [rows, ids] int32 alone, which are filled up with -1:
// all scores are made, a block of rows at a time (`block_scores` of a head, or one row's), and the others hidden. The
// log-sum-exp counts every key up to the row all the same, as a trace's does: a second attention over all of them, made
// `with_lse` only, and else undefined.
AttentionResult AttendSelected(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                               const at::Tensor& selected, bool with_lse, int64_t block_scores = kBlockScores);

// The default backend: what `executor` takes, if there is one, is its own; the rest is AttendCausal, AttendChunks,
// AttendCapped or AttendSelected, and a layer's sinks after it.
class DenseAttention final : public AttentionBackend {
 public:
  explicit DenseAttention(std::shared_ptr<DenseExecutor> executor = nullptr) : executor_(std::move(executor)) {}
  void Attend(const AttentionCall& call) override;

 private:
  std::shared_ptr<DenseExecutor> executor_;
};

}  // namespace headscope::model
