// SPDX-License-Identifier: Apache-2.0
#include "oracle_traces.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "data/trace_writer.h"

namespace headscope::analysis::testing {
namespace {

constexpr int64_t kTokens = 900;
constexpr int32_t kWindow = 300;  // of the second layer's model
constexpr int32_t kQoHeads = 4, kKvHeads = 2, kHeadDim = 32;

// Scale, soft cap, window and sink are the layer's.
float LogSumExp(const data::LayerFacts& facts, int64_t head, const float* query, const float* keys, int64_t row) {
  std::vector<double> scores;
  if (!facts.sinks.empty()) scores.push_back(static_cast<double>(facts.sinks[static_cast<size_t>(head)]));
  for (int64_t column = facts.FirstSeen(row); column <= row; ++column) {
    double dot = 0;
    for (int64_t i = 0; i < facts.head_dim; ++i)
      dot += static_cast<double>(query[i]) * static_cast<double>(keys[column * facts.head_dim + i]);
    const auto cap = static_cast<double>(facts.soft_cap);
    const double score = dot * static_cast<double>(facts.softmax_scale);
    scores.push_back(cap > 0 ? cap * std::tanh(score / cap) : score);
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const double score : scores) sum += std::exp(score - largest);
  return static_cast<float>(largest + std::log(sum));
}

// Keys with outliers, a sink and a slowly turning part, so that heads have sinks, windows and long tails.
void WriteTrace(const std::string& path, const data::TraceLayout& layout) {
  const int64_t tokens = layout.max_tokens;
  data::TraceWriter writer(path, layout, /*overwrite=*/true);
  std::vector<data::TokenRecord> records(static_cast<size_t>(tokens));
  for (size_t i = 0; i < records.size(); ++i) records[i].id = static_cast<int32_t>(i * i % 61);
  writer.AppendTokens(records);
  std::vector<int32_t> positions(static_cast<size_t>(tokens));
  for (int32_t i = 0; i < tokens; ++i) positions[static_cast<size_t>(i)] = i;
  writer.AppendRowPositions(positions);
  std::mt19937 random(20);
  std::normal_distribution<float> normal;
  for (size_t layer = 0; layer < layout.facts.size(); ++layer) {
    const data::LayerFacts& facts = layout.facts[layer];
    const int64_t head_dim = facts.head_dim;
    std::vector<float> q(static_cast<size_t>(facts.num_qo_heads * tokens * head_dim)),
        k(static_cast<size_t>(facts.num_kv_heads * tokens * head_dim)),
        v(static_cast<size_t>(facts.num_kv_heads * tokens * facts.v_head_dim)),
        lse(static_cast<size_t>(facts.num_qo_heads * tokens));
    for (float& value : k) value = normal(random);
    for (float& value : v) value = normal(random);
    for (int64_t head = 0; head < facts.num_qo_heads; ++head) {
      const float* keys = k.data() + head / facts.GroupSize() * tokens * head_dim;
      for (int64_t row = 0; row < tokens; ++row) {
        float* query = q.data() + (head * tokens + row) * head_dim;
        for (int64_t i = 0; i < head_dim; ++i) {
          query[i] = 0.7f * normal(random) * (i == 3 ? 4.0f : 1.0f) + 0.3f * static_cast<float>(head) * keys[i] +
                     0.5f * keys[row / 2 * head_dim + i];
        }
        lse[static_cast<size_t>(head * tokens + row)] = LogSumExp(facts, head, query, keys, row);
      }
    }
    data::LayerBlock block;
    block.layer_slot = static_cast<int32_t>(layer);
    block.num_tokens = block.num_rows = tokens;
    block.q = q.data();
    block.k = k.data();
    block.v = v.data();
    block.lse = lse.data();
    // Any other numbers will do for those before RoPE.
    std::vector<float> pre_rope = q;
    for (size_t i = 0; i < pre_rope.size(); ++i) pre_rope[i] *= static_cast<float>(1 + i % 5);
    if (facts.has_pre_rope) {
      block.Set(data::TraceTensor::kQPreRope, pre_rope.data());
      block.Set(data::TraceTensor::kKPreRope, k.data());
    }
    writer.Append(block);
  }
  writer.Finish();
}

data::TraceLayout OracleLayout() {
  data::TraceLayout layout;
  layout.model.name = "oracle";
  layout.model.model_type = "llama";
  layout.model.config_json = "{}";
  layout.model.weights_sha256 = std::string(64, '0');
  layout.model.tokenizer_sha256 = std::string(64, '0');
  layout.model.num_layers = 2;
  layout.model.num_qo_heads = kQoHeads;
  layout.model.num_kv_heads = kKvHeads;
  layout.model.head_dim = kHeadDim;
  layout.layers = {0, 1};
  layout.facts.assign(2, data::UsualFacts(layout.model));
  layout.facts[1].window = kWindow;
  for (data::LayerFacts& facts : layout.facts) facts.has_pre_rope = true;
  layout.encoding = ElementType::kFloat32;
  layout.max_tokens = kTokens;
  return layout;
}

data::TraceLayout DifferingLayout() {
  data::TraceLayout layout = OracleLayout();
  layout.model.num_layers = 4;
  layout.layers = {0, 1, 3};
  layout.facts.resize(3);
  data::LayerFacts& latent = layout.facts[0];
  latent.has_pre_rope = false;
  latent.head_dim = 192;
  latent.v_head_dim = 128;
  latent.softmax_scale = 0.07f;
  layout.facts[1] = {.num_qo_heads = 6,
                     .num_kv_heads = 3,
                     .head_dim = 64,
                     .v_head_dim = 64,
                     .qo_heads = {0, 1, 2, 3, 4, 5},
                     .kv_heads = {0, 1, 2},
                     .softmax_scale = 0.125f,
                     .soft_cap = 20,
                     .window = 90,
                     .sinks = {0, 3, 5.5f, -4, 8, 1}};
  data::LayerFacts& alias = layout.facts[2] = layout.facts[1];
  alias.num_qo_heads = 2;
  alias.num_kv_heads = 1;
  alias.qo_heads = {0, 1};
  alias.kv_heads = {0};
  alias.window = 0;
  alias.soft_cap = 0;
  alias.sinks = {2, 4};
  alias.v_head_dim = 48;
  alias.v_is_k = true;
  layout.max_tokens = 700;
  return layout;
}

}  // namespace

void WriteOracleTrace(const std::string& path) {
  WriteTrace(path, OracleLayout());
}

void WriteDifferingTrace(const std::string& path) {
  WriteTrace(path, DifferingLayout());
}

}  // namespace headscope::analysis::testing
