// SPDX-License-Identifier: Apache-2.0
// The one line that each example would be in its list (CONTRIBUTING.md). The lists' own units are compiled once more
// with this header in front of them.
#pragma once

#define HEADSCOPE_MORE_PREFILL_METHODS(CPU, BOTH) CPU(EveryNth)
#define HEADSCOPE_MORE_DECODE_METHODS(METHOD) METHOD(HeavyHitters)
#define HEADSCOPE_MORE_ROW_STATISTICS(STATISTIC) STATISTIC(EffectiveKeys)
#define HEADSCOPE_MORE_TASKS(TASK) TASK(Counting)
#define HEADSCOPE_MORE_PANES(PANE) PANE(MakeTrialPane, "trialDock", "Method on trial", kTabbed, 0)
// Gemma 2 is the example; the others have switches of families/family.h that no family of headscope's own has yet.
#define HEADSCOPE_MORE_FAMILIES(FAMILY) \
  FAMILY(Gemma2)                        \
  FAMILY(Gemma3)                        \
  FAMILY(GptNeox)                       \
  FAMILY(Cohere)                        \
  FAMILY(Granite)                       \
  FAMILY(LlamaByKvHead)                 \
  FAMILY(Olmo2)                         \
  FAMILY(Phi3)                          \
  FAMILY(SmolLm3)
