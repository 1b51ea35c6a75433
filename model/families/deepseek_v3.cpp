// SPDX-License-Identifier: Apache-2.0
// DeepSeek V3 and R1: as V2, with a router of sigmoids, and layers past the last one that predict further tokens.
#include <algorithm>

#include "checkpoint/strict_json.h"
#include "families/deepseek.h"
#include "model/model_config.h"

namespace headscope::model {

void ReadExpertGroups(const JsonFields& root, ModelConfig* config) {
  ExpertRules& experts = config->experts;
  if (root.Text("scoring_func", "sigmoid") != "sigmoid")
    root.RefuseUnsupported("scoring_func", "is not supported in this family", "sigmoid is");
  if (root.Text("topk_method", "noaux_tc") != "noaux_tc")
    root.RefuseUnsupported("topk_method", "is not supported in this family", "noaux_tc is");
  experts.score = RouterScore::kSigmoid;
  experts.normalised = root.Boolean("norm_topk_prob", true);
  experts.num_groups = static_cast<int32_t>(root.Integer("n_group", 1, experts.num_experts, 1));
  experts.kept_groups = static_cast<int32_t>(root.Integer("topk_group", 1, experts.num_groups, 1));
  experts.group_of_two = true;
  if (experts.num_experts % experts.num_groups != 0 || experts.num_experts / experts.num_groups < 2)
    root.RefuseField("n_group", "does not make groups of two or more of n_routed_experts", "correct one of the two");
}

void ReadSigmoidRouter(const JsonFields& root, ModelConfig* config) {
  constexpr int64_t kMostSkipped = 64;
  ReadSharedExperts(root, config);
  ReadExpertGroups(root, config);
  config->ropes[0].interleaved = root.Boolean("rope_interleave", true);
  config->num_skipped_layers = static_cast<int32_t>(root.Integer("num_nextn_predict_layers", 0, kMostSkipped, 0));
}

const Family& DeepSeekV3() {
  static constexpr Family family = DeepSeekV3Layout("deepseek_v3");
  return family;
}

}  // namespace headscope::model
