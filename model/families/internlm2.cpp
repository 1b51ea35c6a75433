// SPDX-License-Identifier: Apache-2.0
// InternLM 2: llama with names of its own, and q, k and v in one tensor KV head by KV head.
#include "checkpoint/strict_json.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  config->qkv_bias = config->output_bias = root.Boolean("bias", true);
}

}  // namespace

const Family& InternLm2() {
  static constexpr Family family = {
      .model_type = "internlm2",
      .embedding = "model.tok_embeddings",
      .final_norm = "model.norm",
      .head = "output",
      .layer_prefix = "model.layers.",
      .layer = {.input_norm = "attention_norm",
                .qkv = "attention.wqkv",
                .output = "attention.wo",
                .mlp_norm = "ffn_norm",
                .gate = "feed_forward.w1",
                .up = "feed_forward.w3",
                .down = "feed_forward.w2"},
      .derived = {"attention.rotary_emb.inv_freq"},
      .qkv_layout = QkvLayout::kByKvHead,
      .absent_max_positions = 2048,
      .read = &Read,
  };
  return family;
}

}  // namespace headscope::model
