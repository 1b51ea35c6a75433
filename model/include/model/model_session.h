// SPDX-License-Identifier: Apache-2.0
// A loaded model and its KV cache, without LibTorch in sight: for generation, evaluation and capture.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/device.h"
#include "base/element_type.h"
#include "base/progress.h"

namespace headscope::model {

class AttentionBackend;
class DenseExecutor;

struct CheckpointSummary {
  std::string model_type;
  std::string dtype;                   // of most stored weights; empty where there are none
  int64_t num_parameters = 0;          // of all tensors in the files
  int64_t used_numbers = 0;            // of the weights that the model runs with; two for each byte of packed ones
  std::vector<int64_t> layer_numbers;  // of those each layer's
  int64_t head_beside_embeddings = 0;  // of a head beside tied embeddings, which is in memory where logits are made
  int64_t bytes = 0;
  int32_t num_files = 0;
  int32_t num_layers = 0, num_qo_heads = 0, num_kv_heads = 0, head_dim = 0, hidden_size = 0, vocabulary_size = 0;
  int64_t values_per_token = 0;  // numbers of q, k and v, and of an index's q and k, that a trace of all heads keeps
  int64_t max_positions = 0;
  std::string weights_sha256;  // empty unless asked for
};
// Reads config.json and the safetensors headers only (and the whole files when with_hash). Throws BadInputError,
// CancelledError.
CheckpointSummary ReadCheckpointSummary(const std::string& model_dir, bool with_hash, const std::stop_token& stop = {});
// Why a capture would refuse the folder before it reads any weight, in one sentence; empty when it would not. Reads
// config.json and the safetensors headers.
std::string CaptureRefusal(const std::string& model_dir);
// The same of a prompt that is text or a task: why the folder's tokenizer cannot be used. Token ids need none.
std::string TextRefusal(const std::string& model_dir);

struct SessionOptions {
  // fp32: weights and activations in fp32. bf16: both in bf16, sums in fp32 inside each operator.
  // Nothing: bf16 for a bf16 checkpoint on a GPU; on a CPU, which multiplies bf16 matrices several times slower than
  // fp32 ones, the weights are widened to fp32 (exactly) and only q, k and v are rounded to bf16 before attention uses
  // them. What a trace holds is then still exactly what the model used, in half the space. fp32 for every other
  // checkpoint.
  std::optional<ElementType> dtype = {};
  Device device = kCpu;
  // Tokens per forward pass of a prompt; activations take memory in proportion. 0: what Transformer::PassTokens says.
  int32_t chunk_tokens = 0;
  int32_t num_threads = 0;  // 0: all cores
  // A device for each layer that is loaded (layer_placement.h), in place of `device`: weights and cache of a layer lie
  // there, and hidden states move from one to the next. What lies before the first layer and after the last is with the
  // first one. Empty: all on `device`.
  std::vector<Device> layer_devices = {};
  // Asked for every call of dense attention; null: LibTorch attends to all of them. It serves one model at a time.
  std::shared_ptr<DenseExecutor> dense_executor = {};
  // Where no logits are asked for, the last layer that is loaded: passes end behind it (Transformer::EndBehind), and of
  // the layers above it and of a head that is not the embeddings no weight is read. Without one: the whole model.
  std::optional<int32_t> last_layer = {};
};

class ModelSession {
 public:
  // Throws BadInputError, DeviceError, UsageError (an option's value), CancelledError.
  ModelSession(const std::string& model_dir, const SessionOptions& options, const ProgressFunction& progress = {},
               const std::stop_token& stop = {});
  ~ModelSession();
  // Feeds tokens after those fed before; returns the logits of the last one [vocabulary_size], fp32. Throws UsageError
  // when the model has no position left or an id is not in its vocabulary. This call and the next three throw
  // CancelledError when `stop` is requested; the tokens of whole passes are then fed.
  std::vector<float> Feed(std::span<const int32_t> tokens, const ProgressFunction& progress = {},
                          const std::stop_token& stop = {});
  // Logits of every fed token [tokens, vocabulary_size]: for tests and losses (the caller keeps the count small).
  std::vector<float> FeedAllLogits(std::span<const int32_t> tokens, const std::stop_token& stop = {});
  // Feeds the tokens one by one, as steps behind what was fed before, and hands over the logits that each gives.
  void FeedSteps(std::span<const int32_t> tokens,
                 const std::function<void(size_t index, std::span<const float> logits)>& on_logits,
                 const std::stop_token& stop = {});
  // Greedy continuation; ends at `last_token` (not returned) or after max_tokens.
  std::vector<int32_t> Generate(int64_t max_tokens, int32_t last_token = -1, const std::stop_token& stop = {});
  void Reset();                     // forgets all tokens
  void Rewind(int64_t num_tokens);  // forgets all tokens after the first num_tokens
  int64_t num_tokens() const;       // fed or generated so far
  const CheckpointSummary& summary() const;
  // As Transformer::UseAttention.
  void UseAttention(AttentionBackend* backend);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headscope::model
