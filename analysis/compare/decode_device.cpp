// SPDX-License-Identifier: Apache-2.0
#include "compare/decode_device.h"

#include <utility>

#include "analysis/types/timing.h"
#include "compare/decode_walk.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"

namespace headscope::analysis {
namespace {

using kernels::Status;

class CpuDecode final : public DecodeDevice {
 public:
  CpuDecode(MeasuredHeadsPtr heads, const DecodeSteps& steps, const CompareOptions& options)
      : heads_(std::move(heads)), steps_(steps), options_(options) {}

  const NamedDevice& where() const override { return where_; }
  kernels::AttentionProblem Problem() const override { return heads_->Problem(); }
  void StopBy(std::stop_token stop) override { options_.stop = std::move(stop); }

  Status Prepare(const kernels::DecodeMethod& method, const kernels::ParameterValues& values, DecodeRun* run,
                 std::unique_ptr<DecodeWork>* work) override {
    run->selections.resize(static_cast<size_t>(steps_.count()));
    run->o.assign(static_cast<size_t>(steps_.count() * StepSize()), 0.0f);
    run->select_device = where_;
    auto made = std::make_unique<Work>(*this, method, values, run);
    double select_ms = 0, attend_ms = 0;
    if (Status status = made->Once(&select_ms, &attend_ms); !status.ok()) return status;
    *work = std::move(made);
    return {};
  }

 private:
  class Work final : public DecodeWork {
   public:
    Work(const CpuDecode& device, const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
         DecodeRun* run)
        : device_(device),
          run_(run),
          walk_(device.steps_, method, values, device.Problem(), RecordedOf(*device.heads_),
                {device.options_.num_threads}),
          lse_(static_cast<size_t>(device.heads_->num_qo_heads)) {}

    Status Once(double* select_ms, double* attend_ms) override {
      const DecodeSteps& steps = device_.steps_;
      const kernels::AttentionProblem whole = device_.Problem();
      const kernels::RunOptions options{device_.options_.num_threads, device_.options_.stop};
      walk_.StopBy(options.stop);
      if (Status status = walk_.Start(); !status.ok()) return status;
      for (int64_t step = 0; step < steps.count(); ++step) {
        kernels::DecodeSelection& selection = run_->selections[static_cast<size_t>(step)];
        if (Status status = walk_.Select(step, &selection, select_ms); !status.ok()) return status;
        float* const o = run_->o.data() + step * device_.StepSize();
        kernels::AttentionOutput output;
        output.o = kernels::ContiguousTensor<void>(o, whole.num_qo_heads, 1, whole.ValueDim());
        if (walk_.WantsOutput()) output.lse = lse_.data();
        const kernels::AttentionProblem problem = steps.Problem(whole, step);
        const Stopwatch attend_watch;
        if (Status status = kernels::DecodeCpu(problem, selection, output, options); !status.ok()) return status;
        *attend_ms += attend_watch.Milliseconds();
        if (!walk_.WantsOutput()) continue;
        if (Status status = walk_.Attended(step, selection, o, lse_.data()); !status.ok()) return status;
      }
      *select_ms /= static_cast<double>(steps.count());
      *attend_ms /= static_cast<double>(steps.count());
      return {};
    }

   private:
    const CpuDecode& device_;
    DecodeRun* const run_;
    DecodeWalk walk_;
    std::vector<float> lse_;  // [num_qo_heads], of a step
  };

  int64_t StepSize() const { return int64_t{heads_->num_qo_heads} * heads_->ValueDim(); }

  const MeasuredHeadsPtr heads_;
  const DecodeSteps& steps_;
  CompareOptions options_;
  const NamedDevice where_ = NamedCpu();
};

}  // namespace

Status CheckChosenCount(const kernels::DecodeSelection& selection, int64_t num_chosen, int64_t step) {
  for (size_t list = 0; list + 1 < selection.page_begin.size(); ++list) {
    const int64_t count = selection.page_begin[list + 1] - selection.page_begin[list];
    if (count == num_chosen) continue;
    return {kernels::StatusCode::kDeviceError,
            "step " + std::to_string(step) + ", list " + std::to_string(list) + ": the GPU chose " +
                std::to_string(num_chosen) + " and the CPU " + std::to_string(count) +
                " tokens or pages of the same step, and their numbers must agree; please report it"};
  }
  return {};
}

Status MakeDecodeDevice(MeasuredHeadsPtr heads, const DecodeSteps& steps, const CompareOptions& options,
                        std::unique_ptr<DecodeDevice>* made) {
  if (options.device.is_gpu()) return MakeGpuDecode(std::move(heads), steps, options, made);
  *made = std::make_unique<CpuDecode>(std::move(heads), steps, options);
  return {};
}

}  // namespace headscope::analysis
