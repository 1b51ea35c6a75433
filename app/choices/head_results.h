// SPDX-License-Identifier: Apache-2.0
// Between analysis' results and the files and exit codes of headscope.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analysis/sweep.h"
#include "analysis/types/comparison.h"
#include "analysis/types/head_statistics.h"
#include "data/trace_reader.h"
#include "kernels/status.h"
#include "support/progress_line.h"

namespace headscope::app {

// Refuses (BadInputError) a trace without query rows: captured with few and then cut, say.
void CheckQueryRows(const data::TraceReader& trace);
// Refuses (BadInputError that begins with `source`, a file or folder) heads of a size that methods do not run on. Asks
// the executors themselves, on one token, so that it costs nothing beside the work that would be in vain.
void CheckMethodsRun(int32_t head_dim, const std::string& source);
// The same of every size of head among those of a trace. UsageError where methods run on others that it holds.
void CheckMethodsRun(const data::TraceReader& trace, const std::vector<analysis::HeadId>& heads);

// Those of the heads that attend in chunks: no prefill method runs on them.
std::vector<analysis::HeadId> ChunkedAmong(const data::TraceReader& trace, const std::vector<analysis::HeadId>& heads);
// What a sentence says of such heads, of which there is one at least: how many, of which layers, and that prefill
// methods do not support them.
std::string ChunkedText(const data::TraceReader& trace, const std::vector<analysis::HeadId>& chunked);
// Takes such heads out where others are left and nobody named them. Returns a sentence that says which; empty where
// none was.
std::string LeaveOutChunked(const data::TraceReader& trace, std::vector<analysis::HeadId>* heads);

// Refuses (BadInputError) a method, by its own name, of a file that is of another model than the trace's. Layers that
// were not recorded are taken to have as many KV heads as recorded ones of their kind (window, blocks, neither); where
// none of the kind was recorded, or those differ, they may have more.
void CheckMethodIsOfModel(const std::string& method, const data::TraceReader& trace);

// Refuses (UsageError) a name that does not end in .json, .csv or .h5, and what CheckOutputTarget refuses.
void CheckResultsTarget(const std::string& path, bool force, const std::vector<std::string>& inputs = {});
// To a .json, .csv or .h5 file, through an OutputFile. Throw as CheckResultsTarget does, and FailedError.
void WriteResults(const std::vector<analysis::HeadStatistics>& statistics, const analysis::RunOrigin& origin,
                  const std::string& path, bool force);
void WriteResults(const std::vector<analysis::MethodResult>& results, const std::string& path, bool force);

// To a .csv or .h5 file, as analysis::WriteKeptRows.
void WriteKeptRows(const std::vector<analysis::MethodResult>& results, const std::string& path, bool force);

// What shows a sweep of measurements on the line.
std::function<void(const analysis::SweepProgress&)> ShowComparing(ProgressLine* line);

}  // namespace headscope::app
