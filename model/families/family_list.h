// SPDX-License-Identifier: Apache-2.0
// The list of families: a new one is a file in this folder that defines a function of this shape, and one line here.
// Only families whose numbers a test compares with transformers are listed.
#pragma once

#include "families/family.h"

// What a build of its own adds (tests/extension): nothing here.
#ifndef HEADSCOPE_MORE_FAMILIES
#define HEADSCOPE_MORE_FAMILIES(FAMILY)
#endif

#define HEADSCOPE_FAMILIES(FAMILY) \
  FAMILY(Llama)                    \
  FAMILY(Llama4Text)               \
  FAMILY(Llama4)                   \
  FAMILY(Yi)                       \
  FAMILY(Mistral)                  \
  FAMILY(Ministral)                \
  FAMILY(Ministral3)               \
  FAMILY(Mistral3)                 \
  FAMILY(Mixtral)                  \
  FAMILY(Qwen)                     \
  FAMILY(Qwen2)                    \
  FAMILY(Qwen3)                    \
  FAMILY(Qwen3Moe)                 \
  FAMILY(Qwen3Next)                \
  FAMILY(Qwen35)                   \
  FAMILY(Qwen35Text)               \
  FAMILY(Qwen35Moe)                \
  FAMILY(Qwen35MoeText)            \
  FAMILY(Qwen2Moe)                 \
  FAMILY(Qwen2Vl)                  \
  FAMILY(Qwen25Vl)                 \
  FAMILY(Qwen3Vl)                  \
  FAMILY(Qwen3VlMoe)               \
  FAMILY(Gemma)                    \
  FAMILY(Gemma2)                   \
  FAMILY(Gemma3)                   \
  FAMILY(Gemma3WithImages)         \
  FAMILY(Gemma3n)                  \
  FAMILY(Gemma3nWithImages)        \
  FAMILY(Gemma4)                   \
  FAMILY(Gemma4WithImages)         \
  FAMILY(Phi3)                     \
  FAMILY(Glm)                      \
  FAMILY(Glm4)                     \
  FAMILY(Glm4Moe)                  \
  FAMILY(Glm4MoeLite)              \
  FAMILY(ChatGlm)                  \
  FAMILY(InternLm2)                \
  FAMILY(Granite)                  \
  FAMILY(GraniteMoe)               \
  FAMILY(Olmo2)                    \
  FAMILY(Olmo3)                    \
  FAMILY(Olmoe)                    \
  FAMILY(SmolLm3)                  \
  FAMILY(Cohere)                   \
  FAMILY(Cohere2)                  \
  FAMILY(Exaone4)                  \
  FAMILY(GptNeox)                  \
  FAMILY(Gpt2)                     \
  FAMILY(Opt)                      \
  FAMILY(GptOss)                   \
  FAMILY(DeepSeekV2)               \
  FAMILY(Bert)                     \
  FAMILY(DeepSeekV3)               \
  FAMILY(DeepSeekV32)              \
  FAMILY(KimiK2)                   \
  FAMILY(MiniMaxM2)                \
  FAMILY(SeedOss)                  \
  FAMILY(Ernie45)                  \
  FAMILY(HunyuanDense)             \
  FAMILY(Afmoe)                    \
  FAMILY(Lfm2)                     \
  FAMILY(MiMoV2Flash)              \
  HEADSCOPE_MORE_FAMILIES(FAMILY)

namespace headscope::model {

#define HEADSCOPE_DECLARE(name) const Family& name();
HEADSCOPE_FAMILIES(HEADSCOPE_DECLARE)
#undef HEADSCOPE_DECLARE

}  // namespace headscope::model
