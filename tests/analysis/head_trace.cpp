// SPDX-License-Identifier: Apache-2.0
#include "head_trace.h"

#include <vector>

#include "data/trace_writer.h"

namespace headscope::analysis::testing {

void WriteHeadTrace(const HeadTensors& head, const std::string& path) {
  data::TraceLayout layout;
  layout.model.name = "one head";
  layout.model.model_type = "llama";
  layout.model.config_json = "{}";
  layout.model.weights_sha256 = std::string(64, '0');
  layout.model.tokenizer_sha256 = std::string(64, '0');
  layout.model.num_layers = head.id.layer + 1;
  layout.model.num_qo_heads = 2 * (head.kv_head + 1);
  layout.model.num_kv_heads = head.kv_head + 1;
  layout.model.head_dim = head.head_dim;
  layout.layers = {head.id.layer};
  data::LayerFacts facts = data::UsualFacts(layout.model);
  facts.v_head_dim = head.ValueDim();
  facts.qo_heads = {head.id.head};
  facts.kv_heads = {head.kv_head};
  facts.softmax_scale = head.scale;
  facts.soft_cap = head.soft_cap;
  facts.window = head.window;
  if (head.sink) facts.sinks.assign(static_cast<size_t>(facts.num_qo_heads), *head.sink);
  layout.facts = {facts};
  layout.encoding = ElementType::kFloat32;
  layout.max_tokens = head.num_tokens;
  data::TraceWriter writer(path, layout, /*overwrite=*/true);
  std::vector<data::TokenRecord> tokens(static_cast<size_t>(head.num_tokens));
  if (head.prompt_tokens > 0) {
    for (size_t i = static_cast<size_t>(head.prompt_tokens); i < tokens.size(); ++i)
      tokens[i].phase = data::TokenPhase::kDecode;
  }
  writer.AppendTokens(tokens);
  writer.AppendRowPositions(head.row_positions);
  data::LayerBlock block;
  block.num_tokens = head.num_tokens;
  block.num_rows = head.num_rows;
  block.q = head.q.data();
  block.k = head.k.data();
  block.v = head.v.data();
  block.lse = head.lse.data();
  writer.Append(block);
  writer.Finish();
}

}  // namespace headscope::analysis::testing
