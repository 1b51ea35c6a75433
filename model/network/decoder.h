// SPDX-License-Identifier: Apache-2.0
// The network of a model of any family and its KV cache: what TorchTransformer feeds.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/device.h"
#include "model/attention_backend.h"
#include "model/checkpoint.h"
#include "model/model_config.h"
#include "model/model_session.h"
#include "model/transformer.h"
#include "network/attention.h"
#include "network/delta_rule.h"
#include "network/rope.h"
#include "network/token_index.h"
#include "network/torch_runtime.h"
#include "network/weights.h"

namespace headscope::model {

class PassCopies;

// Keys [num_kv_heads, capacity, head_dim] and values [.., v_head_dim] of one layer, grown by doubling.
struct KeysAndValues {
  at::Tensor k, v;
};

// What a layer keeps of the tokens before a pass. Of a layer that reads another one's keys: nothing.
struct LayerCache {
  // Of each place where a layer reads them: its own, and those of layers that share them. Every pass adds its own
  // tokens to all of them, so that what is there never moves again.
  std::map<size_t, KeysAndValues> of_place;
  at::Tensor index_k;         // [1, capacity, index.dim], of a layer with an index
  at::Tensor raw_k, plain_k;  // of the pass that runs (Projected), where other layers read this one's
  DeltaState state;           // of a layer without attention
};

// q, k and v of a pass as attention's input, and before their positions are turned in; the gates of its output. k and v
// are undefined where the layer reads another one's.
struct Projected {
  at::Tensor raw_q, raw_k;      // [heads, rows, head_dim], as projected
  at::Tensor plain_q, plain_k;  // and normalised
  at::Tensor q, k, v;
  at::Tensor gate;    // [rows, num_qo_heads * v_head_dim], or undefined
  at::Tensor latent;  // q's, [rows, q_rank], or undefined
};

// A device that has layers, and what each of them needs to know of positions there.
struct Place {
  Device wanted;
  c10::Device device;
  std::vector<RotaryEmbedding> rotary;  // of config.ropes
};

// The model and its steps. Its errors are LibTorch's own; TorchTransformer puts them into words.
struct Decoder {
  Decoder(const std::string& model_dir, const SessionOptions& options, const ProgressFunction& progress,
          const std::stop_token& stop_loading);
  // The place of each layer that is loaded, by the options: as many places as there are devices among them.
  void FindPlaces(const SessionOptions& options);
  // Of embeddings, head and the first layer.
  const c10::Device& FirstDevice() const { return places.front().device; }
  // Passes run the first so many layers from now on, and these have a cache, which is empty. While no token is fed.
  void RunFirst(size_t layers);
  void Grow(int64_t needed);
  // The layer whose keys and values this one reads: itself, mostly.
  size_t SourceOf(size_t layer) const;
  // Those that this layer reads, where it lies.
  KeysAndValues& KeysOf(size_t layer);
  // What only the pass that runs needs.
  void ForgetPass();
  at::Tensor TokenTensor(std::span<const int32_t> tokens) const;
  at::Tensor Norm(const at::Tensor& x, const NormWeights& norm) const;
  // q or k, [rows, heads * head_dim], by heads [heads, rows, head_dim], normalised as far as that is done before RoPE.
  at::Tensor Heads(const at::Tensor& rows, int64_t heads, int64_t dim, QkNorm place, const NormWeights& norm) const;
  // Queries [heads, rows, head_dim] of the tokens behind the cache. Behind RoPE, as in transformers: what is recorded
  // before RoPE is without the factor, and the same from Python.
  at::Tensor Grown(const at::Tensor& heads, const QueryGrowth& growth) const;
  at::Tensor BehindRope(const at::Tensor& heads, const NormWeights& norm) const;
  at::Tensor Turned(const at::Tensor& heads, const AttentionLayer& facts,
                    const std::vector<RotaryEmbedding::Tables>& positions) const;
  Projected Project(const at::Tensor& x, size_t layer, const std::vector<RotaryEmbedding::Tables>& positions) const;
  // DeepSeek's way: q, k and v from latents, with the turned components of k shared by all heads. The cache holds what
  // attention reads, heads and all, and no latents.
  Projected ProjectByLatents(const at::Tensor& x, size_t layer,
                             const std::vector<RotaryEmbedding::Tables>& positions) const;
  // `input`: the layer's, of which `x` is what attention reads.
  at::Tensor Attention(const at::Tensor& input, const at::Tensor& x, size_t layer,
                       const std::vector<RotaryEmbedding::Tables>& positions, HeadSink* sink);
  // Contiguous, in the compute type, holding numbers of the captured type.
  at::Tensor Captured(const at::Tensor& heads) const;
  // What there is of a layer's attention in one pass.
  struct Attended {
    const at::Tensor& input;
    const Projected& made;
    const at::Tensor &q, &k, &v, &lse;
    const IndexVectors& index;   // of a layer with an index; else undefined
    const at::Tensor& selected;  // likewise
    const at::Tensor& output;    // [rows, num_qo_heads * v_head_dim], what the output projection gets
  };
  // The norm of that order of W_o v, [num_qo_heads, rows] fp32: a head's part of the output projection, of its KV
  // head's values.
  at::Tensor ValueNorms(size_t layer, const at::Tensor& v, int order) const;
  void Hand(int32_t layer, const Attended& attended, HeadSink* sink);
  c10::Stream CopyStream(c10::Device gpu);
  // Of a pass whose layers have run, or that failed.
  void BeginPassCopies();
  at::Tensor Mlp(const at::Tensor& x, size_t layer) const;
  // What experts beside an MLP give, from what the MLP's norm reads.
  at::Tensor Beside(const at::Tensor& x, const ExpertWeights& w) const;
  // What a layer adds of what it gets of the tokens beside x.
  at::Tensor FromInput(const at::Tensor& x, const LayerInputWeights& w, const at::Tensor& input) const;
  // x with `added` on it.
  at::Tensor Plus(const at::Tensor& x, const at::Tensor& added) const;
  // `input`: what the layer gets of the tokens beside x (LayerInputRules), or undefined.
  at::Tensor Layer(const at::Tensor& x, const at::Tensor& input, size_t layer,
                   const std::vector<RotaryEmbedding::Tables>& positions, HeadSink* sink);
  // The same of a model with several hidden states of a token, [inputs, rows, hidden].
  at::Tensor LayerOfStates(const at::Tensor& states, const at::Tensor& input, size_t layer,
                           const std::vector<RotaryEmbedding::Tables>& positions, HeadSink* sink);
  // The token mixer that stands in place of attention.
  at::Tensor TokenMixer(const at::Tensor& x, size_t layer);
  at::Tensor Embedded(std::span<const int32_t> tokens) const;
  // What the layers get of the tokens beside their hidden states [rows, num_layers, size]; x: the embedded tokens.
  at::Tensor LayerInputs(std::span<const int32_t> tokens, const at::Tensor& x) const;
  // Logits [rows, vocabulary_size], fp32 on the host; of a model without a head the hidden states.
  at::Tensor Logits(const at::Tensor& x) const;

  ModelConfig config;
  std::vector<Place> places;           // that of the first layer first
  std::vector<size_t> place_of_layer;  // of each layer that is loaded
  CheckpointSummary checkpoint_summary;
  const int64_t chunk_tokens;  // 0: nobody asked for a number
  int64_t free_bytes = 0;      // beside the weights, of the one GPU that has all layers; 0: they lie elsewhere
  NumberTypes types;
  ModelWeights weights;
  size_t num_run = 0;                                    // layers of a pass, the first ones
  std::vector<LayerCache> cache;                         // of each that is loaded; those that are not run keep nothing
  std::map<c10::DeviceIndex, c10::Stream> copy_streams;  // of what a sink is handed
  std::shared_ptr<PassCopies> pass_copies;               // of the short pass that runs
  int64_t pass_copy_bytes = 0;                           // of the one before
  DenseAttention dense;
  AttentionBackend* attention = &dense;
  std::vector<int32_t> fed;   // of a model with layers without attention: all tokens so far
  bool stale = false;         // and its state is not what they made: they are fed anew before the next pass
  std::vector<bool> is_read;  // [layers], whether another layer reads its keys
  int64_t capacity = 0;       // tokens
  int64_t length = 0;         // tokens fed
  std::stop_token stop;       // of the pass that runs
  int64_t prompt_end = 0;     // position after the prompt that is being fed in chunks
};

}  // namespace headscope::model
