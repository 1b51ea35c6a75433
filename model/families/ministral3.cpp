// SPDX-License-Identifier: Apache-2.0
// Ministral 3 of 2025, whose queries grow with their position, and what Mistral 3 with images does with text: that, or
// a Mistral.
#include <cmath>
#include <string>

#include "checkpoint/strict_json.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

constexpr const char* kGrowth = "llama_4_scaling_beta";

void ReadGrowth(const JsonFields& root, ModelConfig* config) {
  const char* key = root.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const JsonFields positions = root.Object(key);
  const double rate = positions.Number(kGrowth);
  if (!(rate >= 0) || !std::isfinite(rate)) positions.RefuseField(kGrowth, "must not be negative", "correct it");
  constexpr int64_t kMostPositions = int64_t{1} << 40;
  const int64_t length = positions.Integer("original_max_position_embeddings", 1, kMostPositions);
  for (AttentionLayer& layer : config->layers) layer.growth = {.rate = rate, .length = length};
}

constexpr Family TextRow() {
  Family row = LlamaLayout();
  row.model_type = "ministral3";
  row.window = WindowRule::kBySlidingWindow;
  row.absent_window = 0;
  row.absent_norm_eps = 1e-5;
  row.rope.absent_theta = 1e6;
  row.absent_head_dim = 128;
  row.absent_max_positions = 262144;
  row.absent_num_kv_heads = 8;
  row.read = &ReadGrowth;
  return row;
}

constexpr Family WithImages(Family row) {
  // In files, and in modules of transformers 5.
  row = InsideModelWithImages(row, {"language_model.model.", "model.language_model."});
  row.model_type = "mistral3";
  row.other_head = "language_model.lm_head";
  row.skipped = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."};
  return row;
}

const Family& RowOfText(const JsonFields& root) {
  const std::string kind = root.Text("model_type", "mistral");
  if (kind == "ministral3") return Mistral3();
  if (kind != "mistral")
    root.RefuseUnsupported("model_type", "is not supported in this family", "mistral and ministral3 are");
  static const Family mistral = WithImages(Mistral());  // for what its files leave out
  return mistral;
}

}  // namespace

const Family& Ministral3() {
  static constexpr Family family = TextRow();
  return family;
}

const Family& Mistral3() {
  static constexpr Family family = [] {
    Family row = WithImages(TextRow());
    row.row_of_text = &RowOfText;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
