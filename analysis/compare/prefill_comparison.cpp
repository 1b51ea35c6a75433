// SPDX-License-Identifier: Apache-2.0
#include "compare/prefill_comparison.h"

#include <algorithm>
#include <utility>

#include "analysis/types/mass_distribution.h"
#include "compare/head_of_problem.h"
#include "compare/mask_quality.h"
#include "compare/model_window.h"
#include "compare/output_error.h"
#include "compare/rounds.h"
#include "head/head_checks.h"
#include "kernels/cpu_executor.h"

namespace headscope::analysis {
namespace {

using kernels::Status;

constexpr int64_t kCheckedRows = 32;  // rows whose output is compared with the float64 reference
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
    : measured_(std::move(measured)),
      options_(options),
      judged_(measured_, options.device == "cuda" ? HeadPlace::kGpuWhereExact : HeadPlace::kCpu) {}

Status PrefillComparison::PrepareDense(HeadId asked) {
  if (!dense_.o.empty()) return {};
  if (Status status = CheckPrefillHead(*measured_, asked); !status.ok()) return status;
  if (device_ == nullptr) {
    if (Status status = MakePrefillDevice(measured_, options_, &device_); !status.ok()) return status;
  }
  const kernels::PrefillMethod& dense = kernels::PrefillBaseline();
  static const kernels::ParameterValues kNoValues(dense.spec());
  PrefillRun run;
  options_.Report({dense.spec().name, "prefill", 0, options_.repeats});
  if (Status status = device_->Prepare(dense, kNoValues, &run, &dense_work_); !status.ok()) return status;
  dense_ = std::move(run);
  return {};
}

Status PrefillComparison::KernelError(const PrefillRun& run, int64_t head, double* error) const {
  const kernels::AttentionProblem problem = device_->Problem();
  const int64_t rows = std::min<int64_t>(kCheckedRows, problem.seq_q);
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
  Status status = KeptMass(judged_.Get(id), index, options_.num_threads, options_.cancelled, &mass);
  if (!status.ok()) return status;
  SetKeptMass(DistributeMass(mass), result);
  result->num_rows = measured_->num_rows;
  result->outside_mass = judged_.MeanOutside(id, options_.num_threads);
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

Status PrefillComparison::Run(const std::vector<CheckedMethod>& methods, const std::vector<HeadId>& heads,
                              std::vector<MethodResult>* results) {
  if (heads.empty()) return {};
  if (Status status = PrepareDense(heads.front()); !status.ok()) return status;
  std::vector<RoundEntry> entries;
  std::vector<std::unique_ptr<PrefillWork>> works;
  const bool measures_dense = pinned_.repeats == 0;
  if (measures_dense) {
    entries.push_back({kernels::PrefillBaseline().spec().name,
                       [this](double* select, double* attend) { return dense_work_->Once(select, attend); },
                       {},
                       {}});
  }
  std::vector<size_t> entry_of(methods.size());
  for (size_t m = 0; m < methods.size(); ++m) {
    const CheckedMethod& asked = methods[m];
    if (asked.method.prefill == nullptr) continue;
    PrefillRun own;
    if (!asked.IsBaseline()) {
      options_.Report({asked.spec().name, "prefill", 0, options_.repeats});
      std::unique_ptr<PrefillWork> work;
      if (Status status = device_->Prepare(*asked.method.prefill, asked.values, &own, &work); !status.ok())
        return status;
      entry_of[m] = entries.size();
      entries.push_back({asked.spec().name,
                         [work = work.get()](double* select, double* attend) { return work->Once(select, attend); },
                         {},
                         {}});
      works.push_back(std::move(work));
    }
    for (size_t h = 0; h < heads.size(); ++h) {
      Status status = Judge(asked.IsBaseline() ? dense_ : own, heads[h], &(*results)[h * methods.size() + m]);
      if (!status.ok()) return status;
    }
  }
  if (Status status = RunRounds(options_, "prefill", &entries); !status.ok()) return status;
  // Dense selects nothing: what making its one list took is no part of the baseline.
  const Timing dense = measures_dense ? entries.front().Attend() : pinned_;
  if (dense.median_ms >= kLongBaselineMs) pinned_ = dense;
  for (size_t m = 0; m < methods.size(); ++m) {
    const CheckedMethod& asked = methods[m];
    if (asked.method.prefill == nullptr) continue;
    for (size_t h = 0; h < heads.size(); ++h) {
      MethodResult& result = (*results)[h * methods.size() + m];
      result.phase = "prefill";
      result.is_baseline = asked.IsBaseline();
      result.device = device_->name();
      result.chosen_per = NameOf(asked.spec().chosen_per);
      result.baseline = "headscope";
      result.dense_attend = dense;
      result.attend = asked.IsBaseline() ? dense : entries[entry_of[m]].Attend();
      if (!asked.IsBaseline()) result.select = entries[entry_of[m]].Select();
      result.speedup = asked.IsBaseline() ? 1 : Speedup(result);
    }
  }
  return {};
}

}  // namespace headscope::analysis
