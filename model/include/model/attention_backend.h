// SPDX-License-Identifier: Apache-2.0
// The one seam between a model's network and what computes its attention: Q, K, V and a layer's facts in, O and LSE
// out. Dense attention is the default, LibTorch's but for calls that a DenseExecutor takes; another backend is handed
// to Transformer::UseAttention.
#pragma once

#include <cstdint>
#include <stop_token>

#include "base/element_type.h"
#include "model/attention_layer.h"

namespace headscope::model {

struct RopeConfig;

// What a backend wants of a pass beside q, k and v. Nothing is made for one that wants nothing.
struct AttentionExtras {
  bool q_pre_rope = false, value_norms = false;
};

// One layer's attention in one pass. Row i of `num_rows` stands at position num_tokens - num_rows + i and sees the keys
// up to its own, as the facts say. All tensors lie in the memory of the model's device; rows are contiguous, strides
// count elements.
struct AttentionCall {
  struct Tensor {
    const void* data = nullptr;
    int64_t head_stride = 0;
    int64_t row_stride = 0;
  };
  int32_t layer = 0;
  int32_t num_layers = 0;  // of the model
  const AttentionLayer* facts = nullptr;
  ElementType type = ElementType::kFloat32;  // of q, k, v and o: fp32 or bf16
  bool on_device = false;                    // in a GPU's memory; else in host memory
  int32_t device_ordinal = 0;
  bool of_prompt = false;     // a part of a prompt, of whatever length; else a step, or a pass that nobody announced
  int64_t prompt_tokens = 0;  // of that prompt, all of it; 0: of none
  int64_t num_rows = 0;
  int64_t num_tokens = 0;
  Tensor q;                          // [num_qo_heads, num_rows, head_dim]
  Tensor k;                          // [num_kv_heads, num_tokens, head_dim], those of this pass the last
  Tensor v;                          // [num_kv_heads, num_tokens, v_head_dim]
  const RopeConfig* rope = nullptr;  // what turns the layer's q and k; null: nothing does
  // Of a backend that wants them, in host memory; else null.
  Tensor q_pre_rope;                   // q before RoPE, of q's shape and type
  const float* value_norms = nullptr;  // L1 norms of W_o v of this pass's tokens, [num_qo_heads, num_rows]
  // Of a layer whose index chooses (AttentionLayer::selected), on the model's device: tokens that each row sees, rising
  // and filled up with -1, [num_rows, num_selected], contiguous.
  const int32_t* selected = nullptr;
  int64_t num_selected = 0;
  void* o = nullptr;  // out: [num_qo_heads, num_rows, v_head_dim], contiguous
  std::stop_token stop = {};
  // Where a backend splits a call by heads: numbers, in the layer, of its first ones, and query heads per KV head
  // there; the model leaves them.
  int32_t first_qo_head = 0, first_kv_head = 0, layer_group_size = 0;
  float* lse = nullptr;   // out: [num_qo_heads, num_rows], contiguous, natural log; a sink's logit is among its terms
  bool wants_lse = true;  // false: nobody reads it, and a backend to which it is work of its own leaves it
};

// Dense attention that is faster than LibTorch's for some calls, beneath the default backend, which gives it each call
// first (SessionOptions::dense_executor).
class DenseExecutor {
 public:
  virtual ~DenseExecutor() = default;
  // True: o and lse of the call are made, on a GPU in the order of its default stream. False: nothing was done, and
  // LibTorch attends. Throws as AttentionBackend::Attend.
  virtual bool Attend(const AttentionCall& call) = 0;
};

class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;
  // Asked before every call.
  virtual AttentionExtras Wants() const { return {}; }
  // Whether a step is attended otherwise than a row of a prompt: what is said of it then needs steps.
  virtual bool HasStepsOfItsOwn() const { return false; }
  // Called for every layer of a pass in turn. Throws DeviceError, UsageError (naming what is not supported),
  // CancelledError once call.stop is requested.
  virtual void Attend(const AttentionCall& call) = 0;
  // The model forgot its tokens after the first `num_tokens`.
  virtual void Rewind(int64_t /*num_tokens*/) {}
  // The pass behind the first `num_tokens` failed or was stopped, in Attend() or elsewhere: its tokens do not count,
  // and may come again.
  virtual void Abandon(int64_t num_tokens) { Rewind(num_tokens); }
};

}  // namespace headscope::model
