// SPDX-License-Identifier: Apache-2.0
#include "families/qwen_delta.h"

#include <cstdint>
#include <vector>

#include "checkpoint/strict_json.h"
#include "families/common_keys.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

constexpr int64_t kMostHeads = 1 << 16;
constexpr int64_t kMostDim = 4096;

void ReadKinds(const JsonFields& root, ModelConfig* config) {
  std::vector<AttentionLayer>& layers = config->layers;
  if (!root.Has("layer_types")) {
    config->mixer.kinds_key = "full_attention_interval";
    const auto interval = static_cast<size_t>(root.Integer("full_attention_interval", 1, INT32_MAX, 4));
    for (size_t layer = 0; layer < layers.size(); ++layer) layers[layer].other_mixer = (layer + 1) % interval != 0;
    return;
  }
  const std::vector<bool> is_linear =
      ReadSecondKind(root, "layer_types", layers.size(), "full_attention", "linear_attention");
  for (size_t layer = 0; layer < layers.size(); ++layer) layers[layer].other_mixer = is_linear[layer];
}

}  // namespace

void ReadDeltaLayers(const JsonFields& root, ModelConfig* config) {
  if (!root.Boolean("attn_output_gate", true))
    root.RefuseUnsupported("attn_output_gate", "false is not supported in this family");
  ReadKinds(root, config);
  const auto size = [&](std::string_view key, int64_t most, int64_t absent) {
    return static_cast<int32_t>(root.Integer(key, 1, most, absent));
  };
  MixerRules& mixer = config->mixer;
  mixer.num_key_heads = size("linear_num_key_heads", kMostHeads, 16);
  mixer.num_value_heads = size("linear_num_value_heads", kMostHeads, 32);
  mixer.key_dim = size("linear_key_head_dim", kMostDim, 128);
  mixer.value_dim = size("linear_value_head_dim", kMostDim, 128);
  mixer.kernel = size("linear_conv_kernel_dim", kMostDim, 4);
  if (mixer.num_value_heads % mixer.num_key_heads != 0)
    root.RefuseField("linear_num_value_heads", "is not a multiple of linear_num_key_heads", "correct one of the two");
  for (AttentionLayer& layer : config->layers) {
    if (!layer.other_mixer) continue;
    layer.num_qo_heads = layer.num_kv_heads = 0;
    layer.qk_norm = QkNorm::kNone;
    layer.output_gate = false;
    layer.rope = -1;
  }
}

}  // namespace headscope::model
