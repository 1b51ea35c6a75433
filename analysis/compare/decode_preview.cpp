#include <chrono>
#include <mutex>
#include <utility>

#include "analysis/compare.h"
#include "analysis/types/mass_distribution.h"
#include "compare/decode_steps.h"
#include "compare/mask_quality.h"
#include "kernels/method_names.h"
#include "kernels/parallel.h"

namespace headscope::analysis {
namespace {

using kernels::ColumnRange;
using kernels::Status;
using kernels::StatusCode;

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

Status PreviewDecode(const HeadTensors& head, const kernels::DecodeMethod& method,
                     const kernels::ParameterValues& values, int32_t decode_rows, int32_t num_threads,
                     const std::atomic<bool>* cancelled, DecodePreview* preview) {
  const DecodeSteps steps(head, head.id, decode_rows);
  if (Status status = steps.Check(); !status.ok()) return status;
  const kernels::AttentionProblem whole = head.Problem();
  auto kept = std::make_shared<KeptSteps>();
  kept->first_row = steps.Row(0);
  kept->steps.resize(static_cast<size_t>(steps.count()));
  DecodePreview result;
  result.kept_mass.resize(kept->steps.size());
  std::vector<double> select_ms(kept->steps.size());
  std::mutex mutex;
  Status failure;
  // One thread a step: a step of one head has nothing to share out.
  const bool finished = kernels::ParallelFor(steps.count(), num_threads, cancelled, [&](int64_t i, int32_t) {
    kernels::DecodeSelection selection;
    const auto start = std::chrono::steady_clock::now();
    const Status status = steps.Select(method, values, whole, i, {1, cancelled}, &selection);
    const auto step = static_cast<size_t>(i);
    select_ms[step] = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (!status.ok()) {
      const std::lock_guard lock(mutex);
      failure = status;
      return;
    }
    kept->steps[step] = {head.row_positions[static_cast<size_t>(steps.Row(i))], head.AttendedColumns(steps.Row(i)),
                         Intervals(selection.pages, steps.FirstToken(i))};
    result.kept_mass[step] = static_cast<float>(steps.KeptMass(head, i, selection.pages));
  });
  if (!failure.ok()) return failure;
  if (!finished) return {StatusCode::kCancelled, "cancelled"};

  int64_t kept_pairs = 0, attended_pairs = 0;
  double milliseconds = 0;
  for (size_t step = 0; step < kept->steps.size(); ++step) {
    const KeptStep& one = kept->steps[step];
    kept_pairs += Length(one.kept);
    attended_pairs += one.attended.end - one.attended.begin;
    milliseconds += select_ms[step];
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
  result.steps = std::move(kept);
  *preview = std::move(result);
  return {};
}

}  // namespace headscope::analysis
