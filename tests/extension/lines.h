// SPDX-License-Identifier: Apache-2.0
// The one line that each example would be in its list (CONTRIBUTING.md). The lists' own units are compiled once more
// with this header in front of them.
#pragma once

#define HEADSCOPE_MORE_PREFILL_METHODS(CPU, BOTH) CPU(EveryNth)
#define HEADSCOPE_MORE_DECODE_METHODS(CPU, BOTH) CPU(HeavyHitters)
#define HEADSCOPE_MORE_ROW_STATISTICS(STATISTIC) STATISTIC(EffectiveKeys)
#define HEADSCOPE_MORE_HEAD_STATISTICS(STATISTIC) STATISTIC(MeanKeyLength)
#define HEADSCOPE_MORE_FIGURES(FIGURE) FIGURE(KeyLengthsFigure)
#define HEADSCOPE_MORE_TASKS(TASK) TASK(Counting)
#define HEADSCOPE_MORE_PANES(PANE) PANE(MakeTrialPane, "trialDock", "Method on trial", kBehindBelow, 0)
#define HEADSCOPE_MORE_FAMILIES(FAMILY) FAMILY(LlamaByKvHead)
