// SPDX-License-Identifier: Apache-2.0
// The forward pass of a decoder of any family (families/family.h) with its KV cache. LibTorch stays behind this header.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "model/attention_backend.h"
#include "model/capture_points.h"
#include "model/model_config.h"
#include "model/model_session.h"

namespace headscope::model {

// Host memory that a GPU fills while the model goes on.
class HostCopy {
 public:
  virtual ~HostCopy() = default;
  virtual int64_t bytes() const = 0;
  // Until all of it is there; on any thread. Throws DeviceError, FailedError.
  virtual void Wait() = 0;
};

// What one layer's attention worked on in one pass, in host memory: the model's own, valid during the call, or that of
// `copy`. Values are those that attention used.
struct LayerHeads {
  std::shared_ptr<HostCopy> copy;  // null: all is there
  int32_t layer = 0;
  int64_t first_token = 0;  // position of the pass's first token
  int64_t num_tokens = 0;
  ElementType type = ElementType::kFloat32;      // of vectors: fp32 or bf16
  ElementType captured = ElementType::kFloat32;  // what they were rounded to: fp32 vectors may hold bf16's numbers
  // Element strides: head h, token t, component d at h * head_stride + t * token_stride + d.
  struct Heads {
    const void* data = nullptr;
    int64_t head_stride = 0;
    int64_t token_stride = 0;
  };
  Heads q;                     // [num_qo_heads, num_tokens, head_dim], after RoPE
  Heads k;                     // [num_kv_heads, num_tokens, head_dim], after RoPE
  Heads v;                     // [num_kv_heads, num_tokens, v_head_dim]
  const float* lse = nullptr;  // [num_qo_heads, num_tokens], contiguous, natural log
  // Of the capture points that the sink wants; else without data.
  Heads q_pre_rope, k_pre_rope;        // as q and k, rounded as they are
  const float* value_norms = nullptr;  // [num_qo_heads, num_tokens], contiguous
  const float* value_norms_l1 = nullptr;
  const float* hidden_norms = nullptr;  // [num_tokens]
  Heads q_projection, k_projection;     // as q and k, before norm and RoPE
  Heads cache_k, cache_v;               // as k and v, read from the cache when attention is done
  Heads residual;                       // [1, num_tokens, hidden_size], the layer's input
  Heads head_outputs;                   // [num_qo_heads, num_tokens, v_head_dim], behind an output gate
  // Of a layer whose index chooses its rows' keys: the tokens, as in AttentionCall, and what chose them, rounded as q.
  const int32_t* selected = nullptr;  // [num_tokens, num_selected]
  int64_t num_selected = 0;
  Heads index_q;                         // [index.heads, num_tokens, index.dim]
  Heads index_k;                         // [1, num_tokens, index.dim]
  const float* index_weights = nullptr;  // [index.heads, num_tokens], contiguous
};

// Receives the heads of a pass, layer by layer. It only copies: the pass computes the same numbers with and without it.
class HeadSink {
 public:
  virtual ~HeadSink() = default;
  virtual bool Wants(int32_t layer) const = 0;
  // Of a layer that it wants.
  virtual bool WantsPoint(CapturePoint /*point*/) const { return false; }
  // Whether it may be handed heads whose copy is still being made: it then waits for it before it reads, and holds it
  // until it has read.
  virtual bool TakesCopies() const { return false; }
  virtual void Take(const LayerHeads& heads) = 0;
};

// What Transformer::captured_type() will say, before any weight is read. Throws as OpenTransformer does.
ElementType CapturedType(const std::string& model_dir, const SessionOptions& options);

enum class LogitsOf { kNone, kLastToken, kAllTokens };

class Transformer {
 public:
  virtual ~Transformer() = default;

  // One pass over `tokens` (at least one), which follow those fed before. Returns logits [0, 1 or tokens,
  // vocabulary_size]: the large product with the head is made for the rows that are asked for only. Of a model without
  // a head the last hidden states, [.., hidden_size]. An encoder takes one pass. Throws
  // BadInputError for an id outside the vocabulary, UsageError for a position past the model's maximum, DeviceError
  // when memory runs out, CancelledError between two parts of a layer once `stop` is requested: then no token is fed,
  // and the sink has the first layers.
  virtual std::vector<float> Forward(std::span<const int32_t> tokens, LogitsOf logits, HeadSink* sink = nullptr,
                                     const std::stop_token& stop = {}) = 0;
  // Says that the passes up to that position are the chunks of one prompt, which positions that depend on its length
  // want to know (rope.h). Later passes, and all of them without this call, are steps of their own.
  virtual void BeginPrompt(int64_t end_position) = 0;
  // Passes end behind that layer from now on, for a sink that wants nothing of those above: below the model's last one,
  // or without a head (SessionOptions::last_layer), logits cannot be asked for (std::invalid_argument). The last one
  // that is loaded: as at the start. While no token is fed, since the cache of the layers above has none of the tokens
  // then (std::invalid_argument). Those layers have no cache: what was reserved is given back where the number of
  // layers changes.
  virtual void EndBehind(int32_t layer) = 0;
  // Tokens of each pass over a prompt of `tokens`: SessionOptions::chunk_tokens where it is not 0. Else on a CPU, over
  // several devices, and where a backend may choose anew in every pass, kPassTokens (pass_memory.h); on one GPU as
  // LongPassTokens there says, with recorded_bytes and points of what is recorded of a pass.
  virtual int64_t PassTokens(int64_t tokens, int64_t recorded_bytes = 0,
                             std::span<const CapturePoint> points = {}) const = 0;
  // Makes room for that many tokens at once, so that the cache is not copied while it grows.
  virtual void Reserve(int64_t num_tokens) = 0;
  // Forgets the tokens after the first `num_tokens`.
  virtual void Rewind(int64_t num_tokens) = 0;
  virtual int64_t num_tokens() const = 0;
  // What computes the attention of the passes from now on; null: dense attention, as at the start. It
  // outlives the model, or the next call.
  virtual void UseAttention(AttentionBackend* backend) = 0;

  virtual const ModelConfig& config() const = 0;
  virtual const CheckpointSummary& summary() const = 0;
  virtual ElementType captured_type() const = 0;  // of q, k and v, as LayerHeads::captured
};

// Reads the checkpoint. Throws BadInputError, DeviceError, UsageError, CancelledError.
std::unique_ptr<Transformer> OpenTransformer(const std::string& model_dir, const SessionOptions& options,
                                             const ProgressFunction& progress, const std::stop_token& stop = {});

}  // namespace headscope::model
