// SPDX-License-Identifier: Apache-2.0
// One head of a trace in memory: what every statistic, tile and comparison starts from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "analysis/types/head_statistics.h"
#include "base/device.h"
#include "data/trace_reader.h"
#include "kernels/attention_problem.h"
#include "kernels/decode_policy.h"
#include "kernels/sparse_index.h"

namespace headscope::kernels {
class CudaScores;
}

namespace headscope::analysis {

// What all heads of a layer have in common: sizes, the recorded rows, and which columns a row of the model attends to.
struct HeadFrame {
  int32_t head_dim = 0;    // of q and k
  int32_t v_head_dim = 0;  // of v and outputs; 0: head_dim
  // Query heads per KV head in the model's layer; 0: as in the problem that the heads make.
  int32_t layer_group_size = 0;
  int32_t layer_kv_heads = 0;  // KV heads in the model's layer; 0: not known
  int32_t num_layers = 0;      // of the model; 0: not known
  int64_t num_rows = 0;
  int64_t num_tokens = 0;
  int64_t prompt_tokens = 0;  // those of the tokens that are the prompt's, the first ones; 0: not known
  float scale = 0;
  float soft_cap = 0;
  int32_t window = 0;                  // 0: none
  int32_t chunk = 0;                   // tokens of a block that attends within itself; 0: none
  bool bidirectional = false;          // rows see all tokens; LoadHeadForMap alone gives such heads
  int64_t first_token = 0;             // position of token 0 in the trace that this one was cut from
  std::vector<int32_t> row_positions;  // [num_rows]
  kernels::RopeRotation rope;          // theta 0: not known, or the layer knows no positions

  int32_t ValueDim() const { return v_head_dim > 0 ? v_head_dim : head_dim; }
  // Rows are consecutive positions: methods can run (they select for runs of rows).
  bool RowsContiguous() const;
  // Columns that the model's own row attends to: causal, inside the window or chunk if there is one, among the recorded
  // tokens; all of them where the layer is bidirectional.
  // Everything that headscope says of a row's probabilities is about these.
  kernels::ColumnRange AttendedColumns(int64_t row) const;
  // All keys that the model's row attended to are in the trace. So it is for every row of a trace that was not cut.
  bool SeesAllItsKeys(int64_t row) const;

 private:
  int64_t FirstSeen(int64_t row) const;  // position in the whole prompt
};

// fp32 copies, as recorded. q [num_rows, head_dim], k [num_tokens, head_dim], v [num_tokens, v_head_dim], lse
// [num_rows] (natural log) over all keys that the model's row saw, and its sink. In a part that was cut out of a trace
// behind its first token, the keys before the cut are not there: a row's probabilities then sum to less than 1, and
// what is missing lies outside (MassInTrace).
struct HeadTensors : HeadFrame {
  HeadId id;
  int32_t kv_head = 0;
  std::vector<float> q, k, v, lse;
  std::vector<float> q_pre_rope;  // q before RoPE, [num_rows, head_dim]; empty: not recorded
  // Norms of W_o v of every token, L1 where the trace has those, else Euclidean; empty: neither is recorded.
  std::vector<float> value_norms;
  bool l1_value_norms = false;
  // Of every token the last one before it that has the same id, -1 where none has. Null: the ids are not known.
  std::shared_ptr<const std::vector<int32_t>> previous_same;
  // The head's learned logit, which takes exp(sink - lse) of every row's mass and gives it no value.
  std::optional<float> sink;
  // The same head on the GPU, null when it is not there: kept masses, statistics and tiles are then computed on it.
  std::shared_ptr<const kernels::CudaScores> gpu;
  NamedDevice gpu_device;   // the GPU that it lies on
  std::string gpu_refusal;  // why it was to be there and is not, one sentence

  // Where what can be computed on the GPU is.
  NamedDevice WhereComputed() const { return gpu != nullptr ? gpu_device : NamedCpu(); }
  // What the sink takes of a row's mass; 0 without one.
  double SinkMass(int64_t row) const;
  // A problem over these tensors (one batch, one query head, one KV head).
  kernels::AttentionProblem Problem() const;
};
using HeadTensorsPtr = std::shared_ptr<const HeadTensors>;

// `device`, where a GPU: the head is copied to it as well, if it is there and gives the CPU's numbers (CopyToGpu in
// head/head_on_gpu.h); otherwise the CPU computes them, and the head says why. Throws BadInputError, as for a
// bidirectional layer (RequireCausal); UsageError (naming what was recorded) when the head is not in the trace.
HeadTensorsPtr LoadHead(const data::TraceReader& trace, HeadId head, const Device& device = kCpu);
// The same for a map of its scores, of bidirectional layers too; those stay on the CPU.
HeadTensorsPtr LoadHeadForMap(const data::TraceReader& trace, HeadId head, const Device& device = kCpu);
// Throws BadInputError where rows of the recorded layer see what comes after them: statistics, figures and methods are
// of causal attention.
void RequireCausal(const data::TraceReader& trace, int32_t layer_slot);
// Share of every row's attention mass that lies on the trace's own tokens: exactly 1 for a row that sees all its keys
// and has no sink, 1 - exp(sink - lse) for one that has; of the others the sum of exp(score - lse), which costs one
// pass over their scores. [num_rows]. Throws CancelledError when `stop` is requested during that pass.
std::vector<double> MassInTrace(const HeadTensors& head, int32_t num_threads, const std::stop_token& stop = {});

// One sentence when the recorded lse of some of four rows, evenly spaced, is not that of their q and k, or that of any
// row could not be whatever its keys were: which row and by how much, naming the file. Empty when they agree as well as
// the rounding of q and k in `encoding` lets them. A row of a cut trace, whose other keys are not there, can only be
// seen to be too small.
std::string DescribeWrongLse(const HeadTensors& head, const data::TraceReader& trace);

// Of every token the place of the last one before it with the same id; -1: none.
std::vector<int32_t> PreviousSame(const std::vector<int32_t>& ids);

// Every recorded head, by layer, then head.
std::vector<HeadId> RecordedHeads(const data::TraceReader& trace);

}  // namespace headscope::analysis
