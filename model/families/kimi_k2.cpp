// SPDX-License-Identifier: Apache-2.0
// Kimi K2: DeepSeek V3 by another name, with more experts and fewer heads.
#include "families/deepseek.h"
#include "families/ranked_form.h"

namespace headscope::model {
namespace {

// After tokenization_kimi.py of Kimi K2, which was published with the weights.
constexpr RankedForm kRankedTokens = {.split = PublishedSplit::kKimi, .in_slices = true, .reserved = 256};

}  // namespace

const Family& KimiK2() {
  static constexpr Family family = [] {
    Family row = DeepSeekV3Layout("kimi_k2");
    row.read = [](const JsonFields& root, ModelConfig* config) {
      ReadSigmoidRouter(root, {.factor = {}, .groups = {}, .kept = {}}, config);
    };
    row.ranked_tokens = &kRankedTokens;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
