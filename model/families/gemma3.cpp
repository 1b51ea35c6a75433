// SPDX-License-Identifier: Apache-2.0
// Gemma 3: positions that differ between the layers with and without a window, norms of q and k. Of the models that see
// images as well, what they do with text.
#include "families/common_keys.h"
#include "families/gemma_layout.h"

namespace headscope::model {
namespace {

void ReadRopes(const JsonFields& root, ModelConfig* config) {
  ReadRopesByWindow(root, {.absent_theta = 1e6}, {.theta = "rope_local_base_freq", .absent_theta = 1e4}, config);
}

void Read(const JsonFields& root, ModelConfig* config) {
  if (root.Has("attn_logit_softcapping"))
    root.RefuseUnsupported("attn_logit_softcapping", "is not supported in this family");
  if (root.Has("final_logit_softcapping")) config->logit_soft_cap = ReadSoftCap(root, "final_logit_softcapping", {});
  ReadGemmaScales(root, config);
}

constexpr Family TextRow() {
  Family row = GemmaLayout("gemma3_text");
  row.layer.q_norm = "self_attn.q_norm";
  row.layer.k_norm = "self_attn.k_norm";
  row.qk_norm = QkNorm::kEachHead;
  row.absent_window_pattern = 6;
  row.absent_max_positions = 131072;
  row.read_ropes = &ReadRopes;
  row.read = &Read;
  return row;
}

}  // namespace

const Family& Gemma3() {
  static constexpr Family family = TextRow();
  return family;
}

const Family& Gemma3WithImages() {
  static constexpr Family family = [] {
    // In files, and in modules of transformers 5.
    Family row = InsideModelWithImages(TextRow(), {"language_model.model.", "model.language_model."});
    row.model_type = "gemma3";
    row.skipped = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."};
    // Google's files leave these out.
    row.absent_num_heads = 8;
    row.absent_vocabulary = 262208;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
