#include "compare/prefill_device.h"

#include <utility>

#include "analysis/types/timing.h"
#include "compare/model_window.h"
#include "compare/repeats.h"
#include "compare/unknown_device.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"

namespace headscope::analysis {
namespace {

using kernels::Status;

class CpuPrefill final : public PrefillDevice {
 public:
  CpuPrefill(HeadTensorsPtr head, const CompareOptions& options) : head_(std::move(head)), options_(options) {}

  const std::string& name() const override { return name_; }
  kernels::AttentionProblem Problem() const override { return head_->Problem(); }

  Status Run(const kernels::PrefillMethod& method, const kernels::ParameterValues& values, PrefillRun* run) override {
    return SelectAndAttend(method, values, nullptr, run);
  }
  Status RunBeside(const kernels::SparseIndex& beside, const kernels::PrefillMethod& method,
                   const kernels::ParameterValues& values, PrefillRun* run) override {
    return SelectAndAttend(method, values, &beside, run);
  }

 private:
  Status SelectAndAttend(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                         const kernels::SparseIndex* beside, PrefillRun* run) {
    if (Status status = SelectTimed(*head_, method, values, options_, run); !status.ok()) return status;
    run->o.assign(static_cast<size_t>(head_->num_rows * head_->head_dim), 0.0f);
    std::vector<float> o_beside(beside == nullptr ? 0 : run->o.size());
    for (Repeats repeats(options_, method.spec().name, "attend"); repeats.Begin();) {
      double beside_ms = 0, own_ms = 0;
      // Each goes first as often as the other: the first of two works on cores that have just been woken.
      const bool own_first = run->attend_ms.size() % 2 == 1;
      if (own_first) {
        if (Status status = AttendTimed(run->index, run->o.data(), &own_ms); !status.ok()) return status;
      }
      if (beside != nullptr) {
        if (Status status = AttendTimed(*beside, o_beside.data(), &beside_ms); !status.ok()) return status;
      }
      if (!own_first) {
        if (Status status = AttendTimed(run->index, run->o.data(), &own_ms); !status.ok()) return status;
      }
      repeats.Took(beside_ms + own_ms);
      if (repeats.is_warm_up()) continue;
      run->attend_ms.push_back(own_ms);
      if (beside != nullptr) run->beside_ms.push_back(beside_ms);
    }
    return {};
  }

  // o: [num_rows, head_dim]
  Status AttendTimed(const kernels::SparseIndex& index, float* o, double* milliseconds) const {
    kernels::AttentionOutput output;
    output.o = kernels::ContiguousTensor<void>(o, /*num_heads=*/1, head_->num_rows, head_->head_dim);
    const Stopwatch watch;
    Status status =
        kernels::AttendCpu(head_->Problem(), index.View(), output, {options_.num_threads, options_.cancelled});
    *milliseconds = watch.Milliseconds();
    return status;
  }

  const HeadTensorsPtr head_;
  const CompareOptions options_;
  const std::string name_ = "cpu";
};

}  // namespace

Status SelectTimed(const HeadTensors& head, const kernels::PrefillMethod& method,
                   const kernels::ParameterValues& values, const CompareOptions& options, PrefillRun* run) {
  for (Repeats repeats(options, method.spec().name, "select"); repeats.Begin();) {
    const Stopwatch watch;
    Status status = SelectOnHead(head, method, values, {options.num_threads, options.cancelled}, &run->index);
    const double milliseconds = watch.Milliseconds();
    if (!status.ok()) return status;
    repeats.Took(milliseconds);
    if (!repeats.is_warm_up()) run->select_ms.push_back(milliseconds);
  }
  run->select_device = "cpu";
  return {};
}

Status MakePrefillDevice(HeadTensorsPtr head, const CompareOptions& options, std::unique_ptr<PrefillDevice>* made) {
  if (options.device == "cuda") return MakeGpuPrefill(std::move(head), options, made);
  if (options.device != "cpu") return UnknownDevice(options.device);
  *made = std::make_unique<CpuPrefill>(std::move(head), options);
  return {};
}

}  // namespace headscope::analysis
