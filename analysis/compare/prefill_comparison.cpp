#include "compare/prefill_comparison.h"

#include <algorithm>
#include <utility>

#include "analysis/types/mass_distribution.h"
#include "analysis/types/timing.h"
#include "compare/mask_quality.h"
#include "compare/model_window.h"
#include "compare/output_error.h"
#include "head/head_checks.h"
#include "kernels/cpu_executor.h"

namespace headscope::analysis {
namespace {

using kernels::Status;

constexpr int64_t kCheckedRows = 32;  // rows whose output is compared with the float64 reference
// A baseline shorter than this is timed again in turn with every method: other work on the machine that comes and goes
// would decide a ratio of times so short.
constexpr double kShortBaselineMs = 250;

// The row's attention in float64, straight from the index's kept ranges.
Status ReferenceRow(const kernels::AttentionProblem& problem, const kernels::SparseIndexView& index, int32_t row,
                    float* o) {
  kernels::AttentionProblem single = problem;
  single.seq_q = 1;
  single.first_position = problem.first_position + row;
  single.q.data = static_cast<const char*>(problem.q.data) + row * problem.q.row_stride * SizeOf(problem.dtype);
  std::vector<kernels::ColumnRange> ranges;
  kernels::AppendKeptRanges(index, 0, 0, row, &ranges);
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
  output.o = {o, problem.head_dim, problem.head_dim, problem.head_dim};
  return kernels::AttendReference(single, single_index.View(), output);
}

}  // namespace

PrefillComparison::PrefillComparison(HeadTensorsPtr head, const CompareOptions& options)
    : head_(std::move(head)), options_(options) {}

Status PrefillComparison::MeasureDense() {
  if (!dense_.o.empty()) return {};
  if (Status status = CheckPrefillHead(*head_); !status.ok()) return status;
  if (device_ == nullptr) {
    if (Status status = MakePrefillDevice(head_, options_, &device_); !status.ok()) return status;
  }
  const kernels::PrefillMethod* dense = kernels::FindPrefillMethod("dense");
  PrefillRun run;
  if (Status status = device_->Run(*dense, kernels::ParameterValues(dense->spec()), &run); !status.ok()) return status;
  dense_attend_ = SummariseTimes(run.attend_ms);
  dense_ = std::move(run);
  return {};
}

Status PrefillComparison::RunBesideDense(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                                         PrefillRun* run) {
  const bool is_short = dense_attend_.median_ms < kShortBaselineMs;
  return is_short ? device_->RunBeside(dense_.index, method, values, run) : device_->Run(method, values, run);
}

Status PrefillComparison::KernelError(const PrefillRun& run, double* error) const {
  const kernels::AttentionProblem problem = device_->Problem();
  const int64_t rows = std::min<int64_t>(kCheckedRows, problem.seq_q);
  const int64_t head_dim = problem.head_dim;
  std::vector<float> reference(static_cast<size_t>(rows * head_dim));
  std::vector<float> measured(reference.size());
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row = rows == 1 ? 0 : i * (problem.seq_q - 1) / (rows - 1);
    Status status = ReferenceRow(problem, run.index.View(), static_cast<int32_t>(row), reference.data() + i * head_dim);
    if (!status.ok()) return status;
    std::copy_n(run.o.data() + row * head_dim, head_dim, measured.data() + i * head_dim);
  }
  *error = MeasureError(measured.data(), reference.data(), rows, problem.head_dim).relative;
  return {};
}

Status PrefillComparison::Judge(const PrefillRun& run, MethodResult* result) const {
  if (Status status = KernelError(run, &result->kernel_error); !status.ok()) return status;
  std::vector<float> mass;
  Status status = KeptMass(*head_, run.index.View(), options_.num_threads, options_.cancelled, &mass);
  if (!status.ok()) return status;
  SetKeptMass(DistributeMass(mass), result);
  result->kept_fraction = KeptFraction(*head_, run.index.View());
  return {};
}

Status PrefillComparison::Run(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                              MethodResult* result) {
  if (Status status = MeasureDense(); !status.ok()) return status;
  // Dense, which has no parameters, is the baseline itself: it is measured once and is 1.00 times as fast as itself.
  const bool is_baseline = method.spec().name == "dense";
  PrefillRun own;
  if (!is_baseline) {
    if (Status status = RunBesideDense(method, values, &own); !status.ok()) return status;
  }
  const PrefillRun& run = is_baseline ? dense_ : own;
  result->phase = "prefill";
  result->device = device_->name();
  result->select_device = run.select_device;
  result->note = run.note;
  result->select = SummariseTimes(run.select_ms);
  result->attend = is_baseline ? dense_attend_ : SummariseTimes(run.attend_ms);
  result->dense_attend = own.beside_ms.empty() ? dense_attend_ : SummariseTimes(own.beside_ms);
  result->speedup = Speedup(*result);
  const OutputError error = MeasureError(run.o.data(), dense_.o.data(), head_->num_rows, head_->head_dim);
  result->relative_error = error.relative;
  result->max_error = error.maximum;
  result->cosine = error.cosine;
  return Judge(run, result);
}

}  // namespace headscope::analysis
