// SPDX-License-Identifier: Apache-2.0
#include "model/pass_memory.h"

#include <algorithm>
#include <vector>

#include "network/row_blocks.h"

namespace headscope::model {
namespace {

constexpr int64_t kFloatBytes = 4;

// A layer without attention. A short convolution's parts: the projection's three, what is convolved with what came
// before it, and what comes out. A delta rule's by the lines of network/delta_rule.cpp: the projection, twice, as its
// gate is projected again; what goes through the convolution; q and k of every value head, v and the outputs, in fp32;
// and the memory while it is written anew.
double MixerPass(const ModelConfig& config, double bytes, double rows) {
  const MixerRules& rules = config.mixer;
  if (rules.kind == MixerKind::kShortConvolution) return 7.0 * config.hidden_size * bytes * rows;
  const double keys = static_cast<double>(rules.num_key_heads) * rules.key_dim;
  const double values = static_cast<double>(rules.num_value_heads) * rules.value_dim;
  const double spread = static_cast<double>(rules.num_value_heads) * rules.key_dim;
  const double channels = 2 * keys + values;
  const double in_type = 2 * (channels + values) + 4 * channels + values;
  const double in_float = 2 * 2 * spread + 3 * values;
  return rows * (in_type * bytes + in_float * kFloatBytes) + 3 * spread * rules.value_dim * kFloatBytes;
}

// What recording takes where the layer lies, before it is on the host.
double PointBytes(const ModelConfig& config, const AttentionLayer& layer, double bytes, double rows,
                  std::span<const CapturePoint> points) {
  const double q = static_cast<double>(layer.num_qo_heads) * layer.head_dim;
  const double k = static_cast<double>(layer.num_kv_heads) * layer.head_dim;
  const double v = static_cast<double>(layer.num_kv_heads) * layer.v_head_dim;
  const double out = static_cast<double>(layer.num_qo_heads) * layer.v_head_dim;
  const double hidden = config.hidden_size;
  double all = 0;
  for (const CapturePoint point : points) {
    switch (point) {
      case CapturePoint::kPreRope:
      case CapturePoint::kProjection:
        all += 2 * (q + k) * bytes * rows;  // rounded to what is recorded, and back
        break;
      case CapturePoint::kCache:
        all += (k + v) * bytes * rows;
        break;
      case CapturePoint::kResidual:
        all += 2 * hidden * bytes * rows;
        break;
      case CapturePoint::kHeadOutputs:
        all += 2 * out * bytes * rows;
        break;
      case CapturePoint::kHiddenNorms:
        all += hidden * kFloatBytes * rows;
        break;
      case CapturePoint::kValueNorms:
      case CapturePoint::kValueNormsL1:  // the output projection in fp32, and one head's part of it after the other
        all += kFloatBytes * (hidden * out + rows * (hidden + layer.v_head_dim + layer.num_qo_heads));
        break;
    }
  }
  return all;
}

// An attention layer's pass; of one whose scores are capped also these, a block of rows at a time, and all of its keys
// and values in fp32 (AttendCapped in network/attention.cpp).
double AttentionPass(const ModelConfig& config, const AttentionLayer& layer, double bytes, double rows, double tokens,
                     std::span<const CapturePoint> points) {
  constexpr auto kBlock = static_cast<double>(kBlockScores);
  const double q = static_cast<double>(layer.num_qo_heads) * layer.head_dim;
  const double kv = static_cast<double>(layer.num_kv_heads) * (layer.head_dim + layer.v_head_dim);
  const double out = static_cast<double>(layer.num_qo_heads) * layer.v_head_dim;
  double all = (4 * q + 3 * kv + 2 * out) * bytes * rows;  // as projected, turned and handed over
  if (layer.selected > 0) {
    // Scores of the index and what is made of them, a block of rows at a time, a block of the mask, keys and values as
    // wide as the wider of the two, and what was chosen.
    const double row = std::max(1, config.index.heads) * tokens;
    const double wide = std::max(layer.head_dim, layer.v_head_dim);
    all += kFloatBytes * (3 * std::min(row * rows, std::max(row, kBlock)) + config.index.dim * tokens) +
           bytes * (std::min(tokens * rows, std::max(tokens, kBlock)) + 2 * layer.num_kv_heads * wide * tokens) +
           kFloatBytes * layer.selected * rows + 3.0 * config.index.heads * config.index.dim * bytes * rows;
  }
  if (layer.soft_cap != 0) {
    const double row = layer.num_qo_heads * tokens;  // of scores; a block is one row at least
    const double block = std::min(row * rows, std::max(row, kBlock));
    // Scores, what is taken from them, their exponentials, and a copy of those for the product.
    all += kFloatBytes * (kv * tokens + 4 * block + 2 * out * rows);
  }
  // Of numbers or heads that no fused kernel takes with a window: each pair's distance, whether it is seen, and what is
  // added to its score.
  if (layer.window > 0 && (bytes == kFloatBytes || layer.head_dim > 256))
    all += 10 * rows * std::min(static_cast<double>(layer.window) + rows, tokens);
  if (!layer.sinks.empty()) all += 2 * kFloatBytes * out * rows;
  return all + PointBytes(config, layer, bytes, rows, points);
}

}  // namespace

std::span<const AttentionLayer> LayersRun(const ModelConfig& config, std::optional<int32_t> last_layer) {
  const std::span<const AttentionLayer> all = config.layers;
  return last_layer ? all.first(static_cast<size_t>(*last_layer) + 1) : all;
}

int64_t CachedNumbers(const ModelConfig& config, const AttentionLayer& layer) {
  const int64_t kept_heads = layer.kv_layer < 0 ? layer.num_kv_heads : 0;
  const int64_t of_index = layer.selected > 0 ? config.index.dim : 0;
  return kept_heads * (int64_t{layer.head_dim} + layer.v_head_dim) + of_index;
}

int64_t CacheBytes(const ModelConfig& config, int64_t number_bytes, int64_t tokens, std::optional<int32_t> last_layer) {
  int64_t numbers = 0;
  for (const AttentionLayer& layer : LayersRun(config, last_layer)) {
    if (!layer.other_mixer) numbers += CachedNumbers(config, layer);
  }
  return numbers * tokens * number_bytes;
}

double PassBytes(const ModelConfig& config, int64_t number_bytes, int64_t rows, int64_t tokens,
                 std::span<const CapturePoint> points, std::optional<int32_t> last_layer) {
  const auto bytes = static_cast<double>(number_bytes);
  const std::span<const AttentionLayer> layers = LayersRun(config, last_layer);
  int32_t inner = config.intermediate_size;
  if (!config.inner_sizes.empty())
    inner = *std::ranges::max_element(std::span(config.inner_sizes).first(layers.size()));
  // Of both halves of a gated MLP and their product; a gate of few parts keeps what it cuts off, too.
  const double parts = config.gate_sparsity.empty() ? 3.0 : 4.0;
  double widest = parts * inner * bytes * static_cast<double>(rows);
  for (const AttentionLayer& layer : layers) {
    const double of_layer = layer.other_mixer ? MixerPass(config, bytes, static_cast<double>(rows))
                                              : AttentionPass(config, layer, bytes, static_cast<double>(rows),
                                                              static_cast<double>(tokens), points);
    widest = std::max(widest, of_layer);
  }
  // What all layers get beside hidden states is there from the first on, made of two more tensors of its size.
  const double inputs = 3.0 * config.num_layers * config.layer_inputs.size;
  // All of a token's hidden states: a layer's, what it predicts and what it corrects.
  const double states = 4.0 * config.altup.inputs * config.hidden_size;
  return (4.0 * config.hidden_size + inputs + states) * bytes * static_cast<double>(rows) + widest;
}

int64_t LongPassTokens(const ModelConfig& config, int64_t number_bytes, int64_t tokens, int64_t most_bytes,
                       int64_t recorded_bytes, std::span<const CapturePoint> points,
                       std::optional<int32_t> last_layer) {
  constexpr int64_t kMostRecorded = int64_t{64} << 20;
  int64_t rows = kPassTokens;
  while (rows < tokens && 2 * rows * recorded_bytes <= kMostRecorded &&
         PassBytes(config, number_bytes, 2 * rows, std::max(tokens, 2 * rows), points, last_layer) <=
             static_cast<double>(most_bytes))
    rows *= 2;
  return rows;
}

int64_t MostPassBytes(int64_t free_bytes) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  return std::clamp((free_bytes - kGiB) / 4, int64_t{0}, kGiB);
}

}  // namespace headscope::model
