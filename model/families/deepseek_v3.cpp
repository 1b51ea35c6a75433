// SPDX-License-Identifier: Apache-2.0
// DeepSeek V3 and R1: as V2, with a router of sigmoids, and layers past the last one that predict further tokens.
#include <algorithm>

#include "checkpoint/strict_json.h"
#include "families/deepseek.h"
#include "model/model_config.h"

namespace headscope::model {

void ReadExpertGroups(const JsonFields& root, const AbsentRouting& absent, ModelConfig* config) {
  ExpertRules& experts = config->experts;
  if (root.Text("scoring_func", "sigmoid") != "sigmoid")
    root.RefuseUnsupported("scoring_func", "is not supported in this family", "sigmoid is");
  if (root.Text("topk_method", "noaux_tc") != "noaux_tc")
    root.RefuseUnsupported("topk_method", "is not supported in this family", "noaux_tc is");
  experts.score = RouterScore::kSigmoid;
  experts.normalised = root.Boolean("norm_topk_prob", true);
  experts.num_groups = static_cast<int32_t>(root.Integer("n_group", 1, experts.num_experts, absent.groups));
  experts.kept_groups = static_cast<int32_t>(root.Integer("topk_group", 1, experts.num_groups, absent.kept));
  experts.group_of_two = true;
  if (experts.num_experts % experts.num_groups != 0 || experts.num_experts / experts.num_groups < 2) {
    if (root.Has("n_group"))
      root.RefuseField("n_group", "does not make groups of two or more of n_routed_experts", "correct one of the two");
    root.RefuseField("n_group", "is missing, and its default makes no groups of two or more of n_routed_experts",
                     "add it to the file");
  }
  if (experts.kept_groups > experts.num_groups)  // where the file does not name it
    root.RefuseField("topk_group", "is missing, and its default is more than n_group", "add it to the file");
}

void ReadSigmoidRouter(const JsonFields& root, const AbsentRouting& absent, ModelConfig* config) {
  constexpr int64_t kMostSkipped = 64;
  ReadSharedExperts(root, absent.factor, config);
  ReadExpertGroups(root, absent, config);
  config->ropes[0].interleaved = root.Boolean("rope_interleave", true);
  config->num_skipped_layers = static_cast<int32_t>(root.Integer("num_nextn_predict_layers", 0, kMostSkipped, 0));
}

const Family& DeepSeekV3() {
  static constexpr Family family = [] {
    Family row = DeepSeekV3Layout("deepseek_v3");
    row.read = [](const JsonFields& root, ModelConfig* config) {
      ReadSigmoidRouter(root, kRoutingOfDeepSeekV3, config);
    };
    return row;
  }();
  return family;
}

}  // namespace headscope::model
