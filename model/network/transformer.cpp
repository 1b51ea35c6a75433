// SPDX-License-Identifier: Apache-2.0
#include "model/transformer.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "families/family.h"
#include "model/checkpoint.h"
#include "model/pass_memory.h"
#include "network/alternating_updates.h"
#include "network/decoder.h"
#include "network/pinned_copy.h"
#include "network/torch_library.h"
#include "network/torch_runtime.h"

namespace headscope::model {
namespace {

class TorchTransformer final : public Transformer {
 public:
  TorchTransformer(const std::string& model_dir, const SessionOptions& options, const ProgressFunction& progress,
                   const std::stop_token& stop)
      : decoder_(model_dir, options, progress, stop) {}
  // A window goes on when its capture has ended.
  ~TorchTransformer() override {
    if (!decoder_.copy_streams.empty()) GivePinnedMemoryBack();
  }

  std::vector<float> Forward(std::span<const int32_t> tokens, LogitsOf logits, HeadSink* sink,
                             const std::stop_token& stop) override;
  void BeginPrompt(int64_t end_position) override { decoder_.prompt_end = end_position; }
  void EndBehind(int32_t layer) override;
  int64_t PassTokens(int64_t tokens, int64_t recorded_bytes, std::span<const CapturePoint> points) const override;
  void Reserve(int64_t num_tokens) override;
  void Rewind(int64_t num_tokens) override;
  void UseAttention(AttentionBackend* backend) override {
    decoder_.attention = backend != nullptr ? backend : &decoder_.dense;
    decoder_.attention->Rewind(0);  // what it knows is of another sequence
  }
  int64_t num_tokens() const override { return decoder_.length; }
  const ModelConfig& config() const override { return decoder_.config; }
  const CheckpointSummary& summary() const override { return decoder_.checkpoint_summary; }
  ElementType captured_type() const override { return decoder_.types.captured; }

 private:
  bool IsRecurrent() const { return decoder_.config.mixer.kernel > 0; }
  void Refeed(const std::stop_token& stop);

  bool GivesLogits() const {
    const bool has_head = !decoder_.config.has_head || decoder_.weights.head.defined();
    return has_head && decoder_.num_run == decoder_.config.layers.size();
  }

  Decoder decoder_;
};

std::vector<float> TorchTransformer::Forward(std::span<const int32_t> tokens, LogitsOf logits, HeadSink* sink,
                                             const std::stop_token& stop) {
  Decoder& m = decoder_;
  if (m.stale) Refeed(stop);
  m.stop = stop;
  if (tokens.empty()) throw std::invalid_argument("a forward pass needs at least one token");
  if (logits != LogitsOf::kNone && !GivesLogits())
    throw std::invalid_argument("logits need all of the layers and the head");
  const auto rows = static_cast<int64_t>(tokens.size());
  if (m.length + rows > m.config.max_positions) {
    throw UsageError({.problem = "the prompt needs " + std::to_string(m.length + rows) +
                                 " positions and the model has " + PositionsText(m.config),
                      .remedy = "use a shorter prompt or fewer decode tokens"});
  }
  if (m.length > 0 && !m.config.family->causal)
    throw UsageError({.problem = "an encoder reads a text in one pass", .remedy = "feed the whole text at once"});
  const c10::InferenceMode no_gradients;
  try {
    m.Grow(m.length + rows);
    std::vector<std::vector<RotaryEmbedding::Tables>> positions(m.places.size());
    for (size_t place = 0; place < m.places.size(); ++place) {
      for (RotaryEmbedding& rotary : m.places[place].rotary)
        positions[place].push_back(rotary.At(m.length, rows, std::max(m.length + rows, m.prompt_end)));
    }
    at::Tensor x = m.Embedded(tokens);
    const at::Tensor inputs = m.LayerInputs(tokens, x);
    const bool has_states = m.config.altup.inputs > 0;
    if (has_states) x = SpreadStates(x, m.weights.spread);
    for (size_t layer = 0; layer < m.num_run; ++layer) {
      const size_t place = m.place_of_layer[layer];
      const at::Device& device = m.places[place].device;
      const at::Tensor input = inputs.defined() ? inputs.select(1, static_cast<int64_t>(layer)).to(device) : inputs;
      x = has_states ? m.LayerOfStates(x.to(device), input, layer, positions[place], sink)
                     : m.Layer(x.to(device), input, layer, positions[place], sink);
    }
    m.ForgetPass();
    std::vector<float> result;
    if (logits != LogitsOf::kNone) {
      x = x.to(m.FirstDevice());
      if (has_states) x = GatherStates(x, m.weights.gather);
      const at::Tensor scores = m.Logits(logits == LogitsOf::kLastToken ? x.narrow(0, rows - 1, 1) : x);
      const auto* first = scores.const_data_ptr<float>();
      result.assign(first, first + scores.numel());
    }
    if (IsRecurrent()) m.fed.insert(m.fed.end(), tokens.begin(), tokens.end());
    m.length += rows;
    return result;
  } catch (...) {
    // What ends in its middle does not count; but a recurrence has taken its tokens in, down to some layer.
    m.ForgetPass();
    m.stale = IsRecurrent();
    m.attention->Abandon(m.length);
    RethrowTorchError("a forward pass at position " + std::to_string(m.length));
  }
}

void TorchTransformer::EndBehind(int32_t layer) {
  if (layer < 0 || static_cast<size_t>(layer) >= decoder_.weights.layers.size())
    throw std::invalid_argument("no layer " + std::to_string(layer) + " is loaded");
  if (decoder_.length > 0) throw std::invalid_argument("how far passes go is decided while no token is fed");
  const size_t num_run = static_cast<size_t>(layer) + 1;
  if (num_run != decoder_.num_run) decoder_.RunFirst(num_run);  // else what was reserved stays
}

int64_t TorchTransformer::PassTokens(int64_t tokens, int64_t recorded_bytes,
                                     std::span<const CapturePoint> points) const {
  const Decoder& m = decoder_;
  if (m.chunk_tokens > 0) return m.chunk_tokens;
  if (m.free_bytes == 0 || m.attention != &m.dense) return kPassTokens;
  const int64_t all = m.length + tokens, number_bytes = SizeOf(m.types.compute);
  const auto last_layer = static_cast<int32_t>(m.num_run) - 1;
  const int64_t left = m.free_bytes - CacheBytes(m.config, number_bytes, std::max(all, m.capacity), last_layer);
  return LongPassTokens(m.config, number_bytes, all, MostPassBytes(left), recorded_bytes, points, last_layer);
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
  Decoder& m = decoder_;
  if (num_tokens < 0 || num_tokens > m.length) throw std::invalid_argument("only tokens that were fed can be dropped");
  m.prompt_end = 0;
  if (IsRecurrent() && num_tokens < m.length) {
    m.fed.resize(static_cast<size_t>(num_tokens));
    m.stale = true;
  }
  m.length = num_tokens;
  m.attention->Rewind(num_tokens);
}

// A recurrence remembers all of its tokens at once: those that stay are fed anew, in chunks as a prompt is. Where that
// ends early, they stay to be fed by the next call.
void TorchTransformer::Refeed(const std::stop_token& stop) {
  Decoder& m = decoder_;
  std::vector<int32_t> kept = std::move(m.fed);
  const int64_t announced = m.prompt_end;
  const auto num_tokens = static_cast<int64_t>(kept.size());
  m.stale = false;
  m.fed.clear();
  m.length = 0;
  m.prompt_end = num_tokens;
  try {
    for (LayerCache& layer : m.cache) layer.state = {};
    m.attention->Rewind(0);
    for (int64_t done = 0; done < num_tokens;) {
      const int64_t count = std::min(m.chunk_tokens > 0 ? m.chunk_tokens : kPassTokens, num_tokens - done);
      Forward(std::span(kept).subspan(static_cast<size_t>(done), static_cast<size_t>(count)), LogitsOf::kNone, nullptr,
              stop);
      done += count;
    }
  } catch (...) {
    m.fed = std::move(kept);
    m.length = num_tokens;
    m.prompt_end = announced;
    m.stale = true;
    throw;
  }
  m.prompt_end = announced;
}

}  // namespace

std::unique_ptr<Transformer> on_torch::OpenTransformer(const std::string& model_dir, const SessionOptions& options,
                                                       const ProgressFunction& progress, const std::stop_token& stop) {
  const c10::InferenceMode no_gradients;
  try {
    return std::make_unique<TorchTransformer>(model_dir, options, progress, stop);
  } catch (...) {
    RethrowTorchError("loading " + model_dir);
  }
}

ElementType on_torch::CapturedType(const std::string& model_dir, const SessionOptions& options) {
  const std::string stored = Checkpoint(model_dir).MainDType();
  return ChooseNumberTypes(options.dtype, stored, OpenDevice(options.device)).captured;
}

}  // namespace headscope::model
