// SPDX-License-Identifier: Apache-2.0
#include "compare/prefill_comparison.h"

#include <algorithm>
#include <utility>

#include "analysis/outside_mass.h"
#include "analysis/types/mass_distribution.h"
#include "compare/head_of_problem.h"
#include "compare/mask_quality.h"
#include "compare/model_window.h"
#include "compare/output_error.h"
#include "head/head_checks.h"
#include "kernels/cpu_executor.h"

namespace headscope::analysis {
namespace {

using kernels::Status;

constexpr int64_t kReferenceRows = 32;  // rows whose output is compared with the float64 reference
// A baseline that takes longer is not measured again by later calls: other work on the machine that comes and goes
// would decide a ratio of short times only.
constexpr double kLongBaselineMs = 250;

// One head's lists of an index of several.
kernels::SparseIndexView OfHead(const kernels::SparseIndexView& index, int64_t head) {
  kernels::SparseIndexView one = index;
  const int64_t first = head * index.NumRowTiles();
  one.num_qo_heads = 1;
  one.run_begin += first;
  one.run_count += first;
  one.column_begin += first;
  one.column_count += first;
  return one;
}

// The row's attention of one head in float64, straight from the index's kept ranges.
Status ReferenceRow(const kernels::AttentionProblem& problem, const kernels::SparseIndexView& index, int64_t head,
                    int32_t row, float* o) {
  kernels::AttentionProblem single = HeadOfProblem(problem, head);
  single.seq_q = 1;
  single.first_position = problem.first_position + row;
  single.q.data = static_cast<const char*>(single.q.data) + row * problem.q.row_stride * SizeOf(problem.dtype);
  std::vector<kernels::ColumnRange> ranges;
  kernels::AppendKeptRanges(index, 0, static_cast<int32_t>(head), row, &ranges);
  kernels::SparseIndexBuilder::Shape shape;
  shape.seq_q = 1;
  shape.seq_k = problem.seq_k;
  shape.first_position = single.first_position;
  shape.rule.kind = kernels::MaskKind::kNone;  // the ranges are already what the rule leaves
  kernels::SparseIndexBuilder builder(shape);
  for (const kernels::ColumnRange& range : ranges) builder.AddRange(range.begin, range.end);
  builder.FinishList();
  const kernels::SparseIndex single_index = builder.Build();
  kernels::AttentionOutput output;
  output.o = {o, problem.ValueDim(), problem.ValueDim(), problem.ValueDim()};
  return kernels::AttendReference(single, single_index.View(), output);
}

}  // namespace

PrefillComparison::PrefillComparison(MeasuredHeadsPtr measured, const CompareOptions& options)
    : PhaseComparison(std::move(measured), options, options.device) {}

Status PrefillComparison::CheckHeads(HeadId asked) const {
  return CheckPrefillHead(*measured_, asked);
}

Status PrefillComparison::MakeDevice(std::unique_ptr<PrefillDevice>* made) {
  return MakePrefillDevice(measured_, options_, made);
}

Status PrefillComparison::KernelError(const PrefillRun& run, int64_t head, double* error) const {
  const kernels::AttentionProblem problem = device_->Problem();
  const int64_t rows = std::min<int64_t>(kReferenceRows, problem.seq_q);
  const int64_t head_dim = problem.ValueDim();
  const float* const o = run.o.data() + head * measured_->num_rows * head_dim;
  std::vector<float> reference(static_cast<size_t>(rows * head_dim));
  std::vector<float> measured(reference.size());
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row = rows == 1 ? 0 : i * (problem.seq_q - 1) / (rows - 1);
    Status status =
        ReferenceRow(problem, run.index.View(), head, static_cast<int32_t>(row), reference.data() + i * head_dim);
    if (!status.ok()) return status;
    std::copy_n(o + row * head_dim, head_dim, measured.data() + i * head_dim);
  }
  *error = MeasureError(measured.data(), reference.data(), rows, problem.ValueDim()).relative;
  return {};
}

Status PrefillComparison::Judge(const PrefillRun& run, HeadId id, MethodResult* result) {
  const int64_t head = id.head - measured_->first_qo_head;
  if (Status status = KernelError(run, head, &result->kernel_error); !status.ok()) return status;
  const kernels::SparseIndexView index = OfHead(run.index.View(), head);
  std::vector<float> mass;
  Status status = KeptMass(judged_.Get(id), index, options_.num_threads, options_.stop, &mass);
  if (!status.ok()) return status;
  const std::vector<int32_t>& positions = judged_.Get(id).row_positions;
  SetKeptRows(
      mass, options_.keep_rows, [&](int64_t row) { return positions[static_cast<size_t>(row)]; }, result);
  result->outside_mass = judged_.MeanOutside(id, [this](const HeadTensors& judged) {
    return MeanOutsideMass(judged, MassInTrace(judged, options_.num_threads, options_.stop), 0, judged.num_rows);
  });
  result->kept_fraction = KeptFraction(*measured_, index);
  const int64_t first = head * measured_->num_rows * measured_->ValueDim();
  const OutputError error =
      MeasureError(run.o.data() + first, dense_.o.data() + first, measured_->num_rows, measured_->ValueDim());
  result->relative_error = error.relative;
  result->max_error = error.maximum;
  result->cosine = error.cosine;
  result->select_device = run.select_device;
  result->note = run.note;
  return {};
}

Status PrefillComparison::AddBaselines(std::vector<RoundEntry>* entries) {
  if (pinned_.repeats == 0) entries->push_back(DenseEntry());
  return {};
}

PrefillComparison::Baseline PrefillComparison::ChooseBaseline(const std::vector<RoundEntry>& entries) {
  const Timing dense = pinned_.repeats == 0 ? entries.front().Attend() : pinned_;
  if (dense.median_ms >= kLongBaselineMs) pinned_ = dense;
  return {.own = dense, .fastest = dense};
}

}  // namespace headscope::analysis
