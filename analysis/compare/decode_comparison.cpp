#include "compare/decode_comparison.h"

#include <algorithm>
#include <string>

#include "analysis/tiles.h"
#include "analysis/types/timing.h"
#include "compare/mask_quality.h"
#include "compare/output_error.h"
#include "kernels/cpu_executor.h"

namespace headscope::analysis {

using kernels::Status;
using kernels::StatusCode;

DecodeComparison::DecodeComparison(HeadTensorsPtr head, const CompareOptions& options)
    : head_(std::move(head)), options_(options) {
  num_steps_ = std::clamp<int64_t>(options.decode_rows, 0, head_->num_rows);
  first_row_ = head_->num_rows - num_steps_;
}

kernels::AttentionProblem DecodeComparison::StepProblem(int64_t step) const {
  const int64_t row = first_row_ + step;
  kernels::AttentionProblem problem = head_->Problem();
  problem.first_position = head_->row_positions[static_cast<size_t>(row)];
  problem.seq_q = 1;
  problem.seq_k = problem.first_position + 1;
  problem.q.data = head_->q.data() + row * head_->head_dim;
  return problem;
}

Status DecodeComparison::Measure(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                                 Outcome* outcome) const {
  const kernels::RunOptions run_options{options_.num_threads, options_.cancelled};
  const int64_t head_dim = head_->head_dim;
  outcome->selections.resize(static_cast<size_t>(num_steps_));
  outcome->o.assign(static_cast<size_t>(num_steps_ * head_dim), 0.0f);
  for (int32_t run = 0; run <= options_.repeats; ++run) {  // the first warms up
    double select_ms = 0, attend_ms = 0;
    for (int64_t step = 0; step < num_steps_; ++step) {
      const kernels::AttentionProblem problem = StepProblem(step);
      kernels::DecodeSelection& selection = outcome->selections[static_cast<size_t>(step)];
      const Stopwatch select_watch;
      if (Status status = method.Select(problem, values, run_options, &selection); !status.ok()) return status;
      select_ms += select_watch.Milliseconds();
      kernels::AttentionOutput output;
      output.o = {outcome->o.data() + step * head_dim, head_dim, head_dim, head_dim};
      const Stopwatch attend_watch;
      if (Status status = kernels::DecodeCpu(problem, selection, output, run_options); !status.ok()) return status;
      attend_ms += attend_watch.Milliseconds();
    }
    if (run == 0) continue;
    outcome->select_ms.push_back(select_ms / static_cast<double>(num_steps_));
    outcome->attend_ms.push_back(attend_ms / static_cast<double>(num_steps_));
  }
  return {};
}

double DecodeComparison::SelectedMass(int64_t step, const kernels::DecodeSelection& selection) const {
  double mass = 0;
  for (const int32_t token : selection.tokens) mass += Probability(*head_, first_row_ + step, token);
  return mass;
}

Status DecodeComparison::Run(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                             MethodResult* result) {
  if (num_steps_ == 0 || head_->row_positions.back() >= head_->num_tokens) {
    return {StatusCode::kUnsupported,
            "head " + HeadName(head_->id) + " has no recorded query row with its own key: decode methods need one"};
  }
  if (!has_dense_) {
    const kernels::DecodeMethod* dense = kernels::FindDecodeMethod("dense");
    if (Status status = Measure(*dense, kernels::ParameterValues(dense->spec()), &dense_); !status.ok()) return status;
    has_dense_ = true;
  }
  Outcome outcome;
  if (Status status = Measure(method, values, &outcome); !status.ok()) return status;
  result->phase = "decode";
  result->device = "cpu";
  result->select = SummariseTimes(outcome.select_ms);
  result->attend = SummariseTimes(outcome.attend_ms);
  result->dense_attend = SummariseTimes(dense_.attend_ms);
  result->speedup = result->dense_attend.median_ms / (result->select.median_ms + result->attend.median_ms);

  const OutputError error = MeasureError(outcome.o.data(), dense_.o.data(), num_steps_, head_->head_dim);
  result->relative_error = error.relative;
  result->max_error = error.maximum;
  result->cosine = error.cosine;

  int64_t kept = 0, causal = 0;
  double mass_sum = 0;
  std::vector<float> reference(outcome.o.size());
  for (int64_t step = 0; step < num_steps_; ++step) {
    const kernels::DecodeSelection& selection = outcome.selections[static_cast<size_t>(step)];
    const kernels::AttentionProblem problem = StepProblem(step);
    const double mass = SelectedMass(step, selection);
    result->cra_min = step == 0 ? mass : std::min(result->cra_min, mass);
    mass_sum += mass;
    kept += static_cast<int64_t>(selection.tokens.size());
    causal += problem.seq_k;
    kernels::AttentionOutput output;
    output.o = {reference.data() + step * head_->head_dim, head_->head_dim, head_->head_dim, head_->head_dim};
    if (Status status = kernels::DecodeReference(problem, selection, output); !status.ok()) return status;
  }
  result->cra_mean = mass_sum / static_cast<double>(num_steps_);
  result->kept_fraction = static_cast<double>(kept) / static_cast<double>(causal);
  result->kernel_error = MeasureError(outcome.o.data(), reference.data(), num_steps_, head_->head_dim).relative;
  return {};
}

}  // namespace headscope::analysis
