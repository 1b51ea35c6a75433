// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/strict_json.h"
#include "families/deepseek.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  ReadSharedExperts(root, 1.0, config);
  ExpertRules& experts = config->experts;
  if (root.Boolean("norm_topk_prob", false))
    root.RefuseUnsupported("norm_topk_prob", "true is not supported in this family");
  if (root.Boolean("mlp_bias", false)) root.RefuseUnsupported("mlp_bias", "true is not supported");
  if (root.Text("scoring_func", "softmax") != "softmax")
    root.RefuseUnsupported("scoring_func", "is not supported in this family", "softmax is");
  const std::string method = root.Text("topk_method", "greedy");
  if (method == "greedy") return;
  if (method != "group_limited_greedy")
    root.RefuseUnsupported("topk_method", Quoted(method) + " is not supported", "greedy and group_limited_greedy are");
  experts.num_groups = static_cast<int32_t>(root.Integer("n_group", 1, experts.num_experts));
  experts.kept_groups = static_cast<int32_t>(root.Integer("topk_group", 1, experts.num_groups));
  if (experts.num_experts % experts.num_groups != 0)
    root.RefuseField("n_group", "does not divide n_routed_experts", "correct one of the two");
}

}  // namespace

const Family& DeepSeekV2() {
  static constexpr Family family = [] {
    Family row = DeepSeekLayout("deepseek_v2");
    row.read_ropes = &ReadLatentRopes;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
