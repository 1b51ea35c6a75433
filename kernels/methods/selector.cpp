// SPDX-License-Identifier: Apache-2.0
#include "selector.h"

#include <new>

#include "head_groups.h"
#include "index/checks.h"
#include "kernels/stop_status.h"

namespace headscope::kernels::internal {
namespace {

// Runs choose() -> Status on a fresh result and hands the result over only when all went well.
template <typename Result, typename Choose>
Status HandOver(const RunOptions& options, Choose&& choose, Result* result) {
  if (options.stop.stop_requested()) return Stopped();
  try {
    Result chosen;
    Status status = choose(&chosen);
    if (status.ok()) *result = std::move(chosen);
    return status;
  } catch (const std::bad_alloc&) {
    return {StatusCode::kOutOfMemory, "not enough memory for the working space or the result of this selection"};
  }
}

}  // namespace

Status PrefillSelector::CheckSelect(const AttentionProblem& problem, const ParameterValues& values) const {
  Status status = CheckProblem(problem, /*reads_v=*/false);
  if (status.ok()) status = CheckPositions(problem);
  if (status.ok()) status = CheckValues(spec_, values);
  return status;
}

Status PrefillSelector::Select(const AttentionProblem& problem, const ParameterValues& values,
                               const RunOptions& options, SparseIndex* index) const {
  if (Status status = CheckSelect(problem, values); !status.ok()) return status;
  return HandOver(
      options, [&](SparseIndex* chosen) { return Choose(problem, values, options, chosen); }, index);
}

Status PrefillSelector::EnterBudgets(const AttentionProblem& problem, const ParameterValues& values,
                                     std::span<const double> first, std::span<const double> second,
                                     const RunOptions& options, std::unique_ptr<BudgetEntries>* entries) const {
  if (Status status = CheckSelect(problem, values); !status.ok()) return status;
  return HandOver(
      options,
      [&](std::unique_ptr<BudgetEntries>* made) -> Status {
        *made = Enter(problem, values, first, second, options);
        if (options.stop.stop_requested()) return Stopped();
        return *made ? Status() : PrefillMethod::EnterBudgets(problem, values, first, second, options, made);
      },
      entries);
}

Status DecodeSelector::Select(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                              DecodeSelection* selection) const {
  Status status = CheckValues(spec_, values);
  if (status.ok()) status = CheckProblem(problem, /*reads_v=*/false);
  if (status.ok() && ReadsV(values, problem)) status = CheckProblem(problem, /*reads_v=*/true);
  if (status.ok()) status = CheckDecodeStep(problem);
  if (!status.ok()) return status;
  if (IsDenseLayer(values, problem.layer)) {
    const DecodeMethod& dense = DecodeBaseline();
    return dense.Select(problem, ParameterValues(dense.spec()), options, selection);
  }
  return HandOver(
      options, [&](DecodeSelection* chosen) { return Choose(problem, values, options, chosen); }, selection);
}

}  // namespace headscope::kernels::internal
