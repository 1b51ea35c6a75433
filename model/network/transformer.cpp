// SPDX-License-Identifier: Apache-2.0
#include "model/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "model/checkpoint.h"
#include "network/attention.h"
#include "network/rope.h"
#include "network/torch_library.h"
#include "network/torch_runtime.h"
#include "network/weights.h"

namespace headscope::model {
namespace {

// x / rms(x) in fp32, back to x's type, times the weight: the order of transformers' LlamaRMSNorm.
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale = wide.square().mean(-1, /*keepdim=*/true).add_(eps).rsqrt_();
  return wide.mul(scale).to(x.scalar_type()).mul_(weight);
}

at::Tensor Apply(const Projection& projection, const at::Tensor& x) {
  return at::linear(x, projection.weight, projection.bias);
}

// Keys and values of one layer, [num_kv_heads, capacity, head_dim]. Grown by doubling.
struct LayerCache {
  at::Tensor k, v;
};

// The model and its steps. Its errors are LibTorch's own; TorchTransformer puts them into words.
struct Decoder {
  Decoder(const std::string& model_dir, const SessionOptions& options, const ProgressFunction& progress)
      : config(ReadModelConfig(model_dir)),
        device(OpenDevice(options.device)),
        checkpoint_summary(),
        rotary(config.rope, device) {
    SetTorchThreads(options.num_threads);
    Checkpoint checkpoint(model_dir);
    checkpoint_summary = Summarize(checkpoint, config);
    types = ChooseNumberTypes(options.dtype, checkpoint_summary.dtype, device);
    weights = LoadWeights(&checkpoint, config, types.compute, device, progress);
    cache.resize(weights.layers.size());
  }

  void Grow(int64_t needed) {
    if (needed <= capacity) return;
    constexpr int64_t kLeast = 1024;
    const int64_t grown = std::max({needed, 2 * capacity, kLeast});
    for (LayerCache& layer : cache) {
      for (at::Tensor* kept : {&layer.k, &layer.v}) {
        at::Tensor larger =
            at::empty({config.num_kv_heads, grown, config.head_dim}, at::TensorOptions(device).dtype(types.compute));
        if (length > 0) larger.narrow(1, 0, length).copy_(kept->narrow(1, 0, length));
        *kept = larger;
      }
    }
    capacity = grown;
  }

  at::Tensor TokenTensor(std::span<const int32_t> tokens) const {
    for (const int32_t token : tokens) {
      if (token < 0 || token >= config.vocabulary_size) {
        throw std::invalid_argument("token id " + std::to_string(token) + " is outside the model's vocabulary of " +
                                    std::to_string(config.vocabulary_size) + "; use the tokenizer of the same folder");
      }
    }
    const at::Tensor ids = at::empty({static_cast<int64_t>(tokens.size())}, at::kInt);
    std::memcpy(ids.data_ptr(), tokens.data(), tokens.size_bytes());
    return ids.to(device, at::kLong);
  }

  at::Tensor Attention(const at::Tensor& x, size_t layer, const RotaryEmbedding::Tables& positions, HeadSink* sink) {
    const LayerWeights& w = weights.layers[layer];
    const int64_t rows = x.size(0);
    const int64_t q_size = int64_t{config.num_qo_heads} * config.head_dim;
    const int64_t kv_size = int64_t{config.num_kv_heads} * config.head_dim;
    const at::Tensor qkv = Apply(w.qkv, x);
    at::Tensor q = qkv.narrow(1, 0, q_size).view({rows, config.num_qo_heads, config.head_dim}).transpose(0, 1);
    at::Tensor k = qkv.narrow(1, q_size, kv_size).view({rows, config.num_kv_heads, config.head_dim}).transpose(0, 1);
    at::Tensor v =
        qkv.narrow(1, q_size + kv_size, kv_size).view({rows, config.num_kv_heads, config.head_dim}).transpose(0, 1);
    if (w.q_norm.defined()) {
      q = RmsNorm(q, w.q_norm, config.rms_norm_eps);
      k = RmsNorm(k, w.k_norm, config.rms_norm_eps);
    }
    q = Captured(RotaryEmbedding::Rotate(q, positions));
    k = Captured(RotaryEmbedding::Rotate(k, positions));
    v = Captured(v);
    LayerCache& kept = cache[layer];
    kept.k.narrow(1, length, rows).copy_(k);
    kept.v.narrow(1, length, rows).copy_(v);
    const AttentionLayer& facts = config.layers[layer];
    const at::Tensor output = at::empty({facts.num_qo_heads, rows, facts.v_head_dim}, q.options());
    const at::Tensor lse = at::empty({facts.num_qo_heads, rows}, q.options().dtype(at::kFloat));
    const auto tensor = [](const at::Tensor& t) {
      return AttentionCall::Tensor{t.const_data_ptr(), t.stride(0), t.stride(1)};
    };
    AttentionCall call;
    call.layer = static_cast<int32_t>(layer);
    call.facts = &facts;
    call.is_bf16 = types.compute == at::kBFloat16;
    call.on_device = device.is_cuda();
    call.device_ordinal = q.is_cuda() ? q.get_device() : 0;
    call.num_rows = rows;
    call.num_tokens = length + rows;
    call.q = tensor(q);
    call.k = tensor(kept.k);
    call.v = tensor(kept.v);
    call.o = output.data_ptr();
    call.lse = lse.data_ptr<float>();
    attention->Attend(call);
    if (sink != nullptr && sink->Wants(static_cast<int32_t>(layer)))
      Hand(static_cast<int32_t>(layer), q, k, v, lse, sink);
    return Apply(w.output, output.transpose(0, 1).reshape({rows, q_size}));
  }

  // Contiguous, in the compute type, holding numbers of the captured type.
  at::Tensor Captured(const at::Tensor& heads) const { return heads.to(types.captured).to(types.compute).contiguous(); }

  void Hand(int32_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& lse,
            HeadSink* sink) const {
    const at::Tensor host_q = q.cpu(), host_k = k.cpu(), host_v = v.cpu(), host_lse = lse.cpu().contiguous();
    const auto view = [](const at::Tensor& t) {
      return LayerHeads::Heads{t.const_data_ptr(), t.stride(0), t.stride(1)};
    };
    LayerHeads heads;
    heads.layer = layer;
    heads.first_token = length;
    heads.num_tokens = q.size(1);
    heads.is_bf16 = types.compute == at::kBFloat16;
    heads.exact_in_bf16 = types.captured == at::kBFloat16;
    heads.q = view(host_q);
    heads.k = view(host_k);
    heads.v = view(host_v);
    heads.lse = host_lse.const_data_ptr<float>();
    sink->Take(heads);
  }

  at::Tensor Mlp(const at::Tensor& x, const LayerWeights& w) const {
    const at::Tensor both = Apply(w.gate_up, x);
    return Apply(w.down, at::silu(both.narrow(1, 0, config.intermediate_size))
                             .mul_(both.narrow(1, config.intermediate_size, config.intermediate_size)));
  }

  ModelConfig config;
  c10::Device device;
  CheckpointSummary checkpoint_summary;
  RotaryEmbedding rotary;
  NumberTypes types;
  ModelWeights weights;
  std::vector<LayerCache> cache;
  DenseAttention dense;
  AttentionBackend* attention = &dense;
  int64_t capacity = 0;    // tokens
  int64_t length = 0;      // tokens fed
  int64_t prompt_end = 0;  // position after the prompt that is being fed in chunks
};

class TorchTransformer final : public Transformer {
 public:
  TorchTransformer(const std::string& model_dir, const SessionOptions& options, const ProgressFunction& progress)
      : decoder_(model_dir, options, progress) {}

  std::vector<float> Forward(std::span<const int32_t> tokens, LogitsOf logits, HeadSink* sink) override;
  void BeginPrompt(int64_t end_position) override { decoder_.prompt_end = end_position; }
  void Reserve(int64_t num_tokens) override;
  void Rewind(int64_t num_tokens) override;
  void UseAttention(AttentionBackend* backend) override {
    decoder_.attention = backend != nullptr ? backend : &decoder_.dense;
    decoder_.attention->Rewind(0);  // what it knows is of another sequence
  }
  int64_t num_tokens() const override { return decoder_.length; }
  const ModelConfig& config() const override { return decoder_.config; }
  const CheckpointSummary& summary() const override { return decoder_.checkpoint_summary; }
  bool captures_bf16() const override { return decoder_.types.captured == at::kBFloat16; }

 private:
  Decoder decoder_;
};

std::vector<float> TorchTransformer::Forward(std::span<const int32_t> tokens, LogitsOf logits, HeadSink* sink) {
  Decoder& m = decoder_;
  if (tokens.empty()) throw std::invalid_argument("a forward pass needs at least one token");
  const auto rows = static_cast<int64_t>(tokens.size());
  if (m.length + rows > m.config.max_positions) {
    throw std::invalid_argument("the prompt needs " + std::to_string(m.length + rows) +
                                " positions and the model has " + PositionsText(m.config) +
                                "; use a shorter prompt or fewer decode tokens");
  }
  const c10::InferenceMode no_gradients;
  try {
    m.Grow(m.length + rows);
    const RotaryEmbedding::Tables positions = m.rotary.At(m.length, rows, std::max(m.length + rows, m.prompt_end));
    at::Tensor x = at::embedding(m.weights.embedding, m.TokenTensor(tokens));
    for (size_t layer = 0; layer < m.weights.layers.size(); ++layer) {
      const LayerWeights& w = m.weights.layers[layer];
      x = x + m.Attention(RmsNorm(x, w.input_norm, m.config.rms_norm_eps), layer, positions, sink);
      x = x + m.Mlp(RmsNorm(x, w.post_attention_norm, m.config.rms_norm_eps), w);
    }
    m.length += rows;
    if (logits == LogitsOf::kNone) return {};
    if (logits == LogitsOf::kLastToken) x = x.narrow(0, rows - 1, 1);
    const at::Tensor scores = at::linear(RmsNorm(x, m.weights.final_norm, m.config.rms_norm_eps), m.weights.head)
                                  .to(at::kCPU, at::kFloat)
                                  .contiguous();
    const auto* first = scores.const_data_ptr<float>();
    return {first, first + scores.numel()};
  } catch (...) {
    RethrowTorchError("a forward pass at position " + std::to_string(m.length));
  }
}

void TorchTransformer::Reserve(int64_t num_tokens) {
  const c10::InferenceMode no_gradients;
  try {
    decoder_.Grow(std::min(num_tokens, decoder_.config.max_positions));
  } catch (...) {
    RethrowTorchError("reserving memory for " + std::to_string(num_tokens) + " tokens");
  }
}

void TorchTransformer::Rewind(int64_t num_tokens) {
  if (num_tokens < 0 || num_tokens > decoder_.length) throw std::invalid_argument("only fed tokens can be forgotten");
  decoder_.length = num_tokens;
  decoder_.prompt_end = 0;
  decoder_.attention->Rewind(num_tokens);
}

}  // namespace

std::unique_ptr<Transformer> on_torch::OpenTransformer(const std::string& model_dir, const SessionOptions& options,
                                                       const ProgressFunction& progress) {
  const c10::InferenceMode no_gradients;
  try {
    return std::make_unique<TorchTransformer>(model_dir, options, progress);
  } catch (...) {
    RethrowTorchError("loading " + model_dir);
  }
}

bool on_torch::CapturesBf16(const std::string& model_dir, const SessionOptions& options) {
  const std::string stored = Checkpoint(model_dir).MainDType();
  return ChooseNumberTypes(options.dtype, stored, OpenDevice(options.device)).captured == at::kBFloat16;
}

}  // namespace headscope::model
