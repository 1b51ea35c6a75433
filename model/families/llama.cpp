// SPDX-License-Identifier: Apache-2.0
#include "families/family_list.h"
#include "families/ranked_form.h"

namespace headscope::model {
namespace {

// After llama/tokenizer.py of Meta's releases 3 and 3.1: 256 names in both; the reserved ones are numbered on past
// those that have a use.
std::vector<std::string> Names(bool after_llama_3) {
  constexpr std::string_view kReserved = "<|reserved_special_token_";
  std::vector<std::string> names = {"<|begin_of_text|>", "<|end_of_text|>"};
  AddNumberedNames(kReserved, 0, 2, &names);
  if (after_llama_3) names.emplace_back("<|finetune_right_pad_id|>");
  AddNumberedNames(kReserved, 2, after_llama_3 ? 3 : 4, &names);
  names.insert(names.end(), {"<|start_header_id|>", "<|end_header_id|>"});
  names.emplace_back(after_llama_3 ? "<|eom_id|>" : "<|reserved_special_token_4|>");
  names.emplace_back("<|eot_id|>");
  if (after_llama_3) names.emplace_back("<|python_tag|>");
  AddNumberedNames(kReserved, after_llama_3 ? 3 : 5, after_llama_3 ? 248 : 251, &names);
  return names;
}

constexpr RankedForm kRankedTokens = {.names = &Names, .before = {"<|begin_of_text|>"}, .in_slices = true};

}  // namespace

const Family& Llama() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "llama";
    row.qkv_bias = BiasRule::kByAttentionBias;
    row.output_bias = BiasRule::kByAttentionBias;
    row.mlp_bias = BiasRule::kByMlpBias;
    row.absent_max_positions = 2048;
    row.ranked_tokens = &kRankedTokens;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
