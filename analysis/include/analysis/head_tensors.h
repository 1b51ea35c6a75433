// One head of a trace in memory: what every statistic, tile and comparison starts from.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/types/head_statistics.h"
#include "data/trace_reader.h"
#include "kernels/attention_problem.h"
#include "kernels/sparse_index.h"

namespace headscope::kernels {
class CudaScores;
}

namespace headscope::analysis {

// fp32 copies. q [num_rows, head_dim], k and v [num_tokens, head_dim], lse [num_rows] (natural log): as recorded,
// except in a part that was cut out of a trace behind its first token. Keys before the cut are not there, so lse is
// computed anew over those that are: a row's probabilities then sum to 1 over the part.
struct HeadTensors {
  HeadId id;
  int32_t kv_head = 0;
  int32_t head_dim = 0;
  int64_t num_rows = 0;
  int64_t num_tokens = 0;
  float scale = 0;
  float soft_cap = 0;
  int32_t window = 0;                  // 0: none
  std::vector<int32_t> row_positions;  // [num_rows]
  std::vector<float> q, k, v, lse;
  // The same head on the GPU, null when it is not there: kept masses and tiles are then computed on it.
  std::shared_ptr<const kernels::CudaScores> gpu;

  // Rows are consecutive positions: methods can run (they select for runs of rows).
  bool RowsContiguous() const;
  // Columns that the model's own row attends to: causal, inside the window if there is one, among the recorded tokens.
  // Everything that headscope says of a row's probabilities is about these.
  kernels::ColumnRange AttendedColumns(int64_t row) const;
  // A problem over these tensors (one batch, one query head, one KV head).
  kernels::AttentionProblem Problem() const;
};
using HeadTensorsPtr = std::shared_ptr<const HeadTensors>;

// kGpuWhereExact: the head is copied to the GPU as well, if there is one and it gives the CPU's numbers (CopyToGpu in
// head/head_on_gpu.h); otherwise the CPU computes them.
enum class HeadPlace { kCpu, kGpuWhereExact };
// Throws data::TraceError; std::invalid_argument (naming what was recorded) when the head is not in the trace.
HeadTensorsPtr LoadHead(const data::TraceReader& trace, HeadId head, HeadPlace place = HeadPlace::kCpu);
// Every recorded head, by layer, then head.
std::vector<HeadId> RecordedHeads(const data::TraceReader& trace);

}  // namespace headscope::analysis
