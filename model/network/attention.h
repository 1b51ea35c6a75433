// SPDX-License-Identifier: Apache-2.0
// Exact attention of one chunk of query rows over everything up to it, with the log-sum-exp of every row.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/attention_backend.h"

namespace headscope::model {

struct AttentionResult {
  at::Tensor output;  // [num_qo_heads, rows, head_dim], q's type
  at::Tensor lse;     // [num_qo_heads, rows] fp32, natural log
};

// q [num_qo_heads, rows, head_dim]; k, v [num_kv_heads, tokens, head_dim] of one type and device; row i stands at
// position tokens - rows + i and sees the keys up to itself: all of them, or with a window the newest `window` (0:
// none). K and V are never repeated in memory. With a window that hides a key, memory in proportion to
// rows * (rows + window).
AttentionResult AttendCausal(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                             int64_t window = 0);

// The default backend: AttendCausal, and a layer's sinks after it. Refuses a soft cap, and values of another size than
// keys (std::invalid_argument).
class DenseAttention final : public AttentionBackend {
 public:
  void Attend(const AttentionCall& call) override;
};

}  // namespace headscope::model
