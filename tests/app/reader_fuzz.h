// SPDX-License-Identifier: Apache-2.0
// Files of the command line and of the window's caches, of any bytes: accepted or refused in a sentence, in libFuzzer's
// shape. 0: accepted, 1: refused.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headscope::app {

// capture --record-plan FILE. Aborts where what is accepted is not text as the options take it.
int FuzzRecordPlan(const uint8_t* data, size_t size);
// compare --config FILE: headscope's own tunings and MInference's patterns.
int FuzzHeadSettings(const uint8_t* data, size_t size);
// compare --config FILE.npy: LU-KV's budgets. Aborts where a head of the trace has none, or more than there are tokens.
int FuzzHeadBudgets(const uint8_t* data, size_t size);
// Tables of runs, a JSON document where the first byte is '{', else CSV. Aborts where a run has no method.
int FuzzRuns(const uint8_t* data, size_t size);
// The file that a stopped tuning goes on from (tune --resume), behind its first line where the bytes begin with '[',
// else all of it. Aborts where a head that is taken has no method of the tuning.
int FuzzTuningProgress(const uint8_t* data, size_t size);
// What the window has kept of a trace's statistics. Aborts where a statistic has no name or class.
int FuzzStatistics(const uint8_t* data, size_t size);

}  // namespace headscope::app
