// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "analysis/compare.h"
#include "analysis/types/mass_distribution.h"
#include "compare/chosen_per.h"
#include "compare/decode_steps.h"
#include "compare/decode_walk.h"
#include "compare/mask_quality.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"
#include "kernels/method_names.h"

namespace headscope::analysis {
namespace {

using kernels::ColumnRange;
using kernels::Status;

// Sorted tokens of a step's problem as intervals of the head's key columns.
std::vector<ColumnRange> Intervals(const std::vector<int32_t>& tokens, int32_t first) {
  std::vector<ColumnRange> intervals;
  for (const int32_t token : tokens) {
    const int32_t column = first + token;
    if (!intervals.empty() && intervals.back().end == column) {
      ++intervals.back().end;
    } else {
      intervals.push_back({column, column + 1});
    }
  }
  return intervals;
}

int64_t Length(const std::vector<ColumnRange>& intervals) {
  int64_t length = 0;
  for (const ColumnRange& interval : intervals) length += interval.end - interval.begin;
  return length;
}

}  // namespace

Status CheckDecodeRuns(const MeasuredHeads& measured, const kernels::DecodeMethod& method,
                       const kernels::ParameterValues& values, int32_t decode_rows, int32_t num_threads,
                       const std::stop_token& stop) {
  const HeadId first{measured.layer, measured.first_qo_head};
  const DecodeSteps steps(measured, first, decode_rows);
  if (Status status = steps.Check(first); !status.ok()) return status;
  const kernels::AttentionProblem whole = measured.Problem();
  DecodeWalk walk(steps, method, values, whole, RecordedOf(measured), {num_threads, stop});
  if (Status status = walk.Start(); !status.ok()) return status;
  kernels::DecodeSelection selection;
  double milliseconds = 0;
  return walk.Select(0, &selection, &milliseconds);
}

Status PreviewDecode(const MeasuredHeads& measured, HeadId id, const kernels::DecodeMethod& method,
                     const kernels::ParameterValues& values, int32_t decode_rows, int32_t num_threads,
                     const std::stop_token& stop, DecodePreview* preview) {
  const DecodeSteps steps(measured, id, decode_rows);
  if (Status status = steps.Check(id); !status.ok()) return status;
  const kernels::AttentionProblem whole = measured.Problem();
  const HeadTensorsPtr tensors = measured.Head(id);
  const HeadTensors& head = *tensors;
  auto kept = std::make_shared<KeptSteps>();
  kept->first_row = steps.Row(0);
  kept->steps.resize(static_cast<size_t>(steps.count()));
  DecodePreview result;
  result.kept_mass.resize(kept->steps.size());
  const kernels::RunOptions options{num_threads, stop};
  DecodeWalk walk(steps, method, values, whole, RecordedOf(measured), options);
  if (Status status = walk.Start(); !status.ok()) return status;
  double milliseconds = 0;
  std::vector<float> o(static_cast<size_t>(int64_t{measured.num_qo_heads} * measured.ValueDim())),
      lse(static_cast<size_t>(measured.num_qo_heads));
  for (int64_t i = 0; i < steps.count(); ++i) {
    kernels::DecodeSelection selection;
    if (Status status = walk.Select(i, &selection, &milliseconds); !status.ok()) return status;
    const kernels::AttentionProblem problem = steps.Problem(whole, i);
    const std::vector<int32_t> tokens =
        kernels::KeptTokens(kernels::SelectionOfHead(selection, id.head - measured.first_qo_head), problem.seq_k);
    const auto step = static_cast<size_t>(i);
    kept->steps[step] = {head.row_positions[static_cast<size_t>(steps.Row(i))], head.AttendedColumns(steps.Row(i)),
                         Intervals(tokens, steps.FirstToken(i))};
    result.kept_mass[step] = static_cast<float>(steps.KeptMass(head, i, tokens));
    if (!walk.WantsOutput()) continue;
    // A method that learns from its own attention chooses the next step by it.
    const kernels::AttentionOutput output{
        kernels::ContiguousTensor<void>(o.data(), measured.num_qo_heads, 1, measured.ValueDim()), lse.data()};
    Status status = kernels::DecodeCpu(problem, selection, output, options);
    if (status.ok()) status = walk.Attended(i, selection, o.data(), lse.data());
    if (!status.ok()) return status;
  }

  int64_t kept_pairs = 0, attended_pairs = 0;
  for (const KeptStep& one : kept->steps) {
    kept_pairs += Length(one.kept);
    attended_pairs += one.attended.end - one.attended.begin;
  }
  const auto num_steps = static_cast<double>(kept->steps.size());
  const MassDistribution mass = DistributeMass(result.kept_mass);
  result.summary.head = head.id;
  result.summary.method = kernels::UniqueName(method.spec());
  result.summary.parameters = values.ToString(method.spec());
  result.summary.kept_fraction = static_cast<double>(kept_pairs) / static_cast<double>(attended_pairs);
  SetKeptMass(mass, &result.summary);
  result.summary.worst_row = kept->steps[static_cast<size_t>(mass.worst_row)].position;
  result.summary.select_ms = milliseconds / num_steps;
  result.summary.dense_by = method.DenseBy(values, head.id.layer);
  result.chosen_per = ChosenPerOf(method, measured);
  result.steps = std::move(kept);
  *preview = std::move(result);
  return {};
}

}  // namespace headscope::analysis
