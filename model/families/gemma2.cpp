// SPDX-License-Identifier: Apache-2.0
// Gemma 2, whose scores and logits are capped, whose layers see a window in turn, and which has norms around attention
// and MLP ("Gemma 2: Improving Open Language Models at a Practical Size", section 2).
#include "families/common_keys.h"
#include "families/gemma_layout.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  ReadGemmaScales(root, config);
  if (!root.IsNull("final_logit_softcapping"))
    config->logit_soft_cap = ReadSoftCap(root, "final_logit_softcapping", 30.0);
  if (root.IsNull("attn_logit_softcapping")) return;
  for (AttentionLayer& layer : config->layers) layer.soft_cap = ReadSoftCap(root, "attn_logit_softcapping", 50.0);
}

}  // namespace

const Family& Gemma2() {
  static constexpr Family family = [] {
    Family row = GemmaLayout("gemma2");
    row.absent_window_pattern = 2;
    row.absent_max_positions = 8192;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
