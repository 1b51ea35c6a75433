// SPDX-License-Identifier: Apache-2.0
// The tensors of one attention problem, as every selector and executor sees them: pointers, shapes, strides. No
// framework type.
//
// Query row r (0 <= r < seq_q) stands at token position first_position + r; key column c stands at position c. Causal
// means c <= first_position + r. For a whole prompt first_position is 0; for the last N rows of it, seq_k - N. K and V
// are stored once per KV head; query head h reads KV head h / (num_qo_heads / num_kv_heads).
#pragma once

#include <cmath>
#include <cstdint>

namespace headscope::kernels {

enum class DType : uint8_t { kFloat32 = 0, kBFloat16 = 1, kFloat16 = 2 };

inline int64_t SizeOf(DType dtype) {
  return dtype == DType::kFloat32 ? 4 : 2;
}

// A tensor [batch, head, row, head_dim or v_head_dim] whose last dimension is contiguous; strides count elements.
template <typename Void>
struct StridedTensor {
  Void* data = nullptr;
  int64_t batch_stride = 0;
  int64_t head_stride = 0;
  int64_t row_stride = 0;
};

struct AttentionProblem {
  int32_t batch = 1;
  int32_t num_qo_heads = 0;
  int32_t num_kv_heads = 0;  // divides num_qo_heads
  int32_t head_dim = 0;      // of q and k
  int32_t v_head_dim = 0;    // of v and o; 0: head_dim
  int32_t seq_q = 0;
  int32_t seq_k = 0;
  int32_t first_position = 0;  // token position of query row 0
  // Numbers, in their layer, of query head 0 and of its KV head: some patterns differ from head to head
  // (S2-Attention), and a problem may hold one head of many.
  int32_t first_qo_head = 0;
  int32_t first_kv_head = 0;
  // Query heads per KV head in their layer, where the problem may hold fewer of them; 0: GroupSize().
  int32_t layer_group_size = 0;
  int32_t layer = -1;  // its number in the model, for patterns that differ from layer to layer; -1: not known
  DType dtype = DType::kFloat32;
  StridedTensor<const void> q;  // [batch, num_qo_heads, seq_q, head_dim]
  StridedTensor<const void> k;  // [batch, num_kv_heads, seq_k, head_dim]
  StridedTensor<const void> v;  // [batch, num_kv_heads, seq_k, v_head_dim]
  float scale = 0.0f;           // multiplies q.k; finite and > 0, or 0 for head_dim^-0.5; all else is kInvalidArgument
  float soft_cap = 0.0f;        // > 0: score = soft_cap * tanh(scale * q.k / soft_cap), before the mask; 0: none

  // A logit for each query head [num_qo_heads], in host memory and natural units, which joins every row's softmax and
  // has no value: O = sum exp(s) v / (exp(sink) + sum exp(s)). Null: none.
  const float* sinks = nullptr;
  // > 0: a row sees the newest `window` keys up to its own and no others, whatever an index or a selection keeps; 0:
  // none. Where the index has been cut to a window already, 0 spares the executors the work.
  int32_t window = 0;

  int32_t GroupSize() const { return num_qo_heads / num_kv_heads; }
  int32_t LayerGroupSize() const { return layer_group_size > 0 ? layer_group_size : GroupSize(); }
  float EffectiveScale() const { return scale != 0.0f ? scale : 1.0f / std::sqrt(static_cast<float>(head_dim)); }
  int32_t ValueDim() const { return v_head_dim > 0 ? v_head_dim : head_dim; }
};

// Where an executor writes. o has the problem's dtype unless the executor says otherwise.
struct AttentionOutput {
  StridedTensor<void> o;  // [batch, num_qo_heads, seq_q, v_head_dim]; shares no memory with q, k or v
  // [batch, num_qo_heads, seq_q] fp32, natural log, contiguous; may be null. A sink's logit is among its terms. A row
  // without keys: o = 0, and -inf or the sink's logit.
  float* lse = nullptr;
  // [batch, num_qo_heads, seq_q] fp32, contiguous; null where it is not wanted or the executor does not write it. The
  // row's largest score (QK-clip), scaled and capped, in natural units, without the sink; a selection's weights do not
  // change it, but one of weight 0 is none. A row without keys: -inf; one with a NaN among its scores: NaN.
  float* row_max = nullptr;
};

}  // namespace headscope::kernels
