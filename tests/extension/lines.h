// SPDX-License-Identifier: Apache-2.0
// The one line that each example would be in its list (CONTRIBUTING.md). The lists' own units are compiled once more
// with this header in front of them.
#pragma once

#define HEADSCOPE_MORE_PREFILL_METHODS(CPU, BOTH) CPU(EveryNth)
#define HEADSCOPE_MORE_ROW_STATISTICS(STATISTIC) STATISTIC(EffectiveKeys)
#define HEADSCOPE_MORE_TASKS(TASK) TASK(Counting)
