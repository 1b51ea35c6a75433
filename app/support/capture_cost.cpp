// SPDX-License-Identifier: Apache-2.0
#include "support/capture_cost.h"

#include <algorithm>
#include <limits>

#include "model/layer_placement.h"
#include "model/safetensors.h"

namespace headscope::app {
namespace {

// Pairs of a row and a key that it sees, over the rows of a prompt.
double SeenPairs(const model::AttentionLayer& layer, int64_t prompt_tokens) {
  const auto tokens = static_cast<double>(prompt_tokens);
  if (!layer.causal) return tokens * tokens;
  if (layer.chunk > 0) {  // rows see what is in their own block up to themselves
    const auto triangle = [](int64_t rows) { return static_cast<double>(rows) * static_cast<double>(rows + 1) / 2; };
    const int64_t whole_blocks = prompt_tokens / layer.chunk;
    return static_cast<double>(whole_blocks) * triangle(layer.chunk) + triangle(prompt_tokens % layer.chunk);
  }
  const double all = tokens * (tokens + 1) / 2;
  if (layer.window == 0 || layer.window >= prompt_tokens) return all;
  const double behind = tokens - layer.window;  // rows that do not see the first key
  return all - behind * (behind + 1) / 2;
}

// By the last of so many tokens.
int64_t SeenKeys(const model::AttentionLayer& layer, int64_t tokens) {
  if (layer.chunk > 0) return (tokens - 1) % layer.chunk + 1;
  return layer.window > 0 ? std::min<int64_t>(layer.window, tokens) : tokens;
}

// Weights as numbers: all that the model holds in memory, and those that a token of the prompt is multiplied with.
struct Weights {
  double held = 0, met = 0;
};

Weights WeightsOf(const model::ModelConfig& config, const model::CheckpointSummary& summary, size_t num_run,
                  bool with_logits) {
  const model::ExpertRules& experts = config.experts;
  const double expert = 3.0 * config.hidden_size * experts.inner_size;  // gate, up and down
  const double of_layer = experts.num_experts * expert;
  const double all_experts = static_cast<double>(std::ranges::count(experts.layers, true)) * of_layer;
  // MXFP4 stores two numbers in a byte and a scale, another byte, for 32 of them; two numbers are counted for each.
  const double counted = experts.mxfp4 ? 1 + 1.0 / 16 : 1;
  const double others = std::max(0.0, static_cast<double>(summary.used_numbers) - counted * all_experts);
  // Embeddings are looked up, and the head is multiplied with the last token alone.
  const double table = static_cast<double>(config.vocabulary_size) * config.embedding_size;
  const double tables = table * (config.has_head && !config.tied_embeddings ? 2 : 1);
  double held = others + all_experts, met = others - tables;
  if (!with_logits) held -= tables - table;
  if (with_logits) held += static_cast<double>(summary.head_beside_embeddings);
  for (size_t layer = 0; layer < config.layers.size(); ++layer) {
    const bool has_experts = !experts.layers.empty() && experts.layers[layer];
    if (layer < num_run) {
      if (has_experts) met += experts.per_token * expert;
      continue;
    }
    const double in_layer = has_experts ? counted * of_layer : 0;
    const double beside = std::max(0.0, static_cast<double>(summary.layer_numbers[layer]) - in_layer);
    met -= beside;
    held -= beside + (has_experts ? of_layer : 0);
  }
  return {std::max(0.0, held), std::max(0.0, met)};
}

int64_t PassTokens(const model::ModelConfig& config, const CaptureLengths& lengths, int64_t number_bytes) {
  if (lengths.chunk_tokens > 0) return lengths.chunk_tokens;
  if (!lengths.on_gpu) return model::kPassTokens;
  // Of a GPU that has the memory: what the passes take at most.
  return model::LongPassTokens(config, number_bytes, lengths.prompt_tokens,
                               model::MostPassBytes(std::numeric_limits<int64_t>::max()), lengths.recorded_bytes,
                               lengths.points, lengths.last_layer);
}

}  // namespace

int64_t NumberBytes(const model::CheckpointSummary& summary, std::optional<ElementType> compute, const Device& device) {
  if (compute) return SizeOf(*compute);
  return device.is_gpu() ? SizeOf(model::TypeByItself(summary.dtype)) : SizeOf(ElementType::kFloat32);
}

bool IsSpread(std::span<const Device> layers) {
  return std::ranges::any_of(layers, [&](const Device& one) { return one != layers.front(); });
}

CaptureCost CostOf(const model::ModelConfig& config, const model::CheckpointSummary& summary,
                   const CaptureLengths& lengths, int64_t number_bytes) {
  const auto bytes = static_cast<double>(number_bytes);
  const int64_t tokens = lengths.prompt_tokens + lengths.decode_tokens;
  const std::span<const model::AttentionLayer> layers = model::LayersRun(config, lengths.last_layer);
  const Weights weights = WeightsOf(config, summary, layers.size(), /*with_logits=*/!lengths.last_layer);
  const double head = static_cast<double>(config.vocabulary_size) * config.hidden_size;
  CaptureCost cost;
  cost.prompt_operations = 2 * weights.met * static_cast<double>(lengths.prompt_tokens);
  double states = 0, cache = 0, read = weights.met + (config.has_head ? head : 0);
  for (const model::AttentionLayer& layer : layers) {
    if (layer.other_mixer) {
      states += static_cast<double>(model::MixerStateBytes(config, number_bytes));
      continue;
    }
    const double key_and_value = layer.head_dim + layer.v_head_dim;
    if (layer.selected > 0)  // every pair has a score of the index; attention hides what it did not choose
      cost.prompt_operations += 2.0 * config.index.heads * config.index.dim * SeenPairs(layer, lengths.prompt_tokens);
    cost.prompt_operations += 2 * layer.num_qo_heads * key_and_value * SeenPairs(layer, lengths.prompt_tokens);
    cache += static_cast<double>(model::CachedNumbers(config, layer) * tokens);
    read += layer.num_kv_heads * key_and_value * static_cast<double>(SeenKeys(layer, tokens));
  }
  cost.decode_bytes = bytes * read * static_cast<double>(lengths.decode_tokens);
  const int64_t rows = IsEncoder(config) ? lengths.prompt_tokens
                                         : std::min(PassTokens(config, lengths, number_bytes), lengths.prompt_tokens);
  const double pass = model::PassBytes(config, number_bytes, rows, tokens, lengths.points, lengths.last_layer);
  cost.model_bytes = static_cast<int64_t>(bytes * (weights.held + cache) + states + pass) +
                     model::CopiedKeyBytes(config, lengths.layer_devices, number_bytes, tokens, lengths.last_layer);
  return cost;
}

}  // namespace headscope::app
