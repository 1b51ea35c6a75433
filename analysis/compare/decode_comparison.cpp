#include "compare/decode_comparison.h"

#include <utility>
#include <vector>

#include "analysis/types/mass_distribution.h"
#include "analysis/types/timing.h"
#include "compare/mask_quality.h"
#include "compare/output_error.h"
#include "kernels/cpu_executor.h"

namespace headscope::analysis {

using kernels::Status;

DecodeComparison::DecodeComparison(HeadTensorsPtr head, const CompareOptions& options)
    : head_(std::move(head)), options_(options), steps_(*head_, options.decode_rows) {}

Status DecodeComparison::MeasureDense() {
  if (Status status = steps_.Check(); !status.ok()) return status;
  if (dense_ != nullptr) return {};
  if (device_ == nullptr) {
    if (Status status = MakeDecodeDevice(head_, steps_, options_, &device_); !status.ok()) return status;
  }
  const kernels::DecodeMethod* dense = kernels::FindDecodeMethod("dense");
  auto run = std::make_unique<DecodeRun>();
  Status status = device_->Run(*dense, kernels::ParameterValues(dense->spec()), run.get());
  if (status.ok()) dense_ = std::move(run);
  return status;
}

Status DecodeComparison::Judge(const DecodeRun& run, MethodResult* result) const {
  int64_t kept = 0, attended = 0;
  std::vector<float> masses(static_cast<size_t>(steps_.count()));
  const int64_t head_dim = head_->head_dim;
  std::vector<float> reference(run.o.size());
  for (int64_t step = 0; step < steps_.count(); ++step) {
    const kernels::DecodeSelection& selection = run.selections[static_cast<size_t>(step)];
    const kernels::AttentionProblem problem = steps_.Problem(device_->Problem(), step);
    masses[static_cast<size_t>(step)] = static_cast<float>(steps_.KeptMass(step, selection));
    kept += static_cast<int64_t>(selection.tokens.size());
    attended += problem.seq_k;
    kernels::AttentionOutput output;
    output.o = {reference.data() + step * head_dim, head_dim, head_dim, head_dim};
    if (Status status = kernels::DecodeReference(problem, selection, output); !status.ok()) return status;
  }
  SetKeptMass(DistributeMass(masses), result);
  result->kept_fraction = static_cast<double>(kept) / static_cast<double>(attended);
  result->kernel_error = MeasureError(run.o.data(), reference.data(), steps_.count(), head_->head_dim).relative;
  return {};
}

Status DecodeComparison::Run(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                             MethodResult* result) {
  if (Status status = MeasureDense(); !status.ok()) return status;
  // Dense, which has no parameters, is the baseline itself: measured once.
  const bool is_baseline = method.spec().name == "dense";
  DecodeRun own;
  if (!is_baseline) {
    if (Status status = device_->Run(method, values, &own); !status.ok()) return status;
  }
  const DecodeRun& run = is_baseline ? *dense_ : own;
  result->phase = "decode";
  result->device = device_->name();
  result->select_device = run.select_device;
  result->note = run.note;
  result->select = SummariseTimes(run.select_ms);
  result->attend = SummariseTimes(run.attend_ms);
  result->dense_attend = SummariseTimes(dense_->attend_ms);
  result->speedup = Speedup(*result);
  const OutputError error = MeasureError(run.o.data(), dense_->o.data(), steps_.count(), head_->head_dim);
  result->relative_error = error.relative;
  result->max_error = error.maximum;
  result->cosine = error.cosine;
  return Judge(run, result);
}

}  // namespace headscope::analysis
