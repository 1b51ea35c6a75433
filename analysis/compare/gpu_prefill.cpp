// SPDX-License-Identifier: Apache-2.0
// Prefill methods on the GPU: it selects and attends there, one right after the other, and only the index and the
// output come back, outside of what is timed.
#include <functional>
#include <utility>

#include "compare/gpu_selection.h"
#include "compare/head_union.h"
#include "compare/prefill_device.h"
#include "compare/timed_gpu.h"
#include "kernels/cuda_executor.h"
#include "kernels/prompt_passes.h"

namespace headscope::analysis {
namespace {

using kernels::Status;
using kernels::StatusCode;

class GpuPrefill final : public PrefillDevice {
 public:
  explicit GpuPrefill(TimedGpu timed) : timed_(std::move(timed)) {}

  const NamedDevice& where() const override { return timed_.heads->device(); }
  kernels::AttentionProblem Problem() const override { return timed_.heads->host_problem(); }
  void StopBy(std::stop_token stop) override { timed_.options.stop = std::move(stop); }

  Status Prepare(const kernels::PrefillMethod& method, const kernels::ParameterValues& values, PrefillRun* run,
                 std::unique_ptr<PrefillWork>* work) override {
    kernels::CudaSelectPlan plan;
    // As SelectInside takes them on the CPU.
    const kernels::ParameterValues of_prompt =
        kernels::AtPromptLength(method, values, timed_.heads->heads().prompt_tokens);
    Status selects = GpuSelection::Plan(*timed_.heads, method, of_prompt, &plan);
    if (!selects.ok() && selects.code() != StatusCode::kUnsupported) return selects;
    if (Status status = timed_.heads->PoisonOutput(); !status.ok()) return status;
    Status status;
    if (selects.ok()) {
      status = PrepareOnGpu(plan, of_prompt, run, work);
    } else {
      run->note = method.spec().name + " selects on the CPU: " + selects.message();
      status = PrepareOnCpu(method, values, run, work);
    }
    const MeasuredHeads& heads = timed_.heads->heads();
    if (!status.ok()) return status;
    const std::string missing = IncompleteUnion(method.spec(), values, heads, run->index.View());
    if (!missing.empty()) run->note += (run->note.empty() ? "" : "; ") + missing;
    return timed_.heads->ReadOutput(0, heads.num_qo_heads * heads.num_rows, &run->o);
  }

 private:
  // Select and attend, one behind the other.
  class WorkOnGpu final : public PrefillWork {
   public:
    WorkOnGpu(GpuPrefill& device, const kernels::CudaSelectPlan& plan, const kernels::ParameterValues& values)
        : device_(device), plan_(plan), values_(values) {}
    Status Once(double* select_ms, double* attend_ms) override {
      kernels::SparseIndexView view;
      return device_.SelectAndAttend(plan_, values_, &view, select_ms, attend_ms);
    }

   private:
    GpuPrefill& device_;
    const kernels::CudaSelectPlan plan_;
    const kernels::ParameterValues values_;
  };

  // Selects on the CPU; attends over the index that lies on the GPU.
  class WorkOnCpu final : public PrefillWork {
   public:
    WorkOnCpu(const GpuPrefill& device, const kernels::PrefillMethod& method, const kernels::ParameterValues& values)
        : device_(device), method_(method), values_(values) {}
    WorkOnCpu(const WorkOnCpu&) = delete;
    WorkOnCpu& operator=(const WorkOnCpu&) = delete;

    Status Upload(const kernels::SparseIndexView& index) { return kernels::UploadIndex(index, &uploaded_); }
    Status Once(double* select_ms, double* attend_ms) override {
      kernels::SparseIndex again;
      Status status =
          SelectTimed(device_.timed_.heads->heads(), method_, values_, device_.timed_.options, &again, select_ms);
      return status.ok() ? device_.AttendTimed(uploaded_.view, attend_ms) : status;
    }
    Status Attend() const {
      double dropped = 0;
      return device_.AttendTimed(uploaded_.view, &dropped);
    }

   private:
    const GpuPrefill& device_;
    const kernels::PrefillMethod& method_;
    const kernels::ParameterValues& values_;
    kernels::CudaIndexBuffers uploaded_;
  };

  Status PrepareOnGpu(const kernels::CudaSelectPlan& plan, const kernels::ParameterValues& values, PrefillRun* run,
                      std::unique_ptr<PrefillWork>* work) {
    kernels::SparseIndexView view;
    double select_ms = 0, attend_ms = 0;
    Status status = SelectAndAttend(plan, values, &view, &select_ms, &attend_ms);
    if (status.ok()) status = kernels::DownloadChecked(plan, view, &run->index, /*stream=*/nullptr);
    if (!status.ok()) return status;
    run->select_device = where();
    *work = std::make_unique<WorkOnGpu>(*this, plan, values);
    return {};
  }

  Status PrepareOnCpu(const kernels::PrefillMethod& method, const kernels::ParameterValues& values, PrefillRun* run,
                      std::unique_ptr<PrefillWork>* work) {
    double select_ms = 0;
    Status status = SelectTimed(timed_.heads->heads(), method, values, timed_.options, &run->index, &select_ms);
    run->select_device = NamedCpu();
    auto made = std::make_unique<WorkOnCpu>(*this, method, values);
    if (status.ok()) status = made->Upload(run->index.View());
    if (status.ok()) status = made->Attend();
    if (status.ok()) *work = std::move(made);
    return status;
  }

  Status SelectAndAttend(const kernels::CudaSelectPlan& plan, const kernels::ParameterValues& values,
                         kernels::SparseIndexView* view, double* select_ms, double* attend_ms) {
    Status status = selection_.Reserve(plan);
    if (!status.ok()) return status;
    const auto select = [&] { return selection_.Select(*timed_.heads, plan, values, view); };
    const auto attend = [&] { return Attend(*view); };
    std::vector<double> times;
    if (status = timed_.clock->Time({select, attend}, &times); !status.ok()) return status;
    *select_ms = times[0];
    *attend_ms = times[1];
    return {};
  }

  Status AttendTimed(const kernels::SparseIndexView& index, double* attend_ms) const {
    std::vector<double> times;
    const auto attend = [&] { return Attend(index); };
    Status status = timed_.clock->Time({attend}, &times);
    if (status.ok()) *attend_ms = times[0];
    return status;
  }

  Status Attend(const kernels::SparseIndexView& index) const {
    return kernels::AttendCuda(timed_.heads->problem(), index, timed_.heads->output(), /*stream=*/nullptr);
  }

  TimedGpu timed_;
  GpuSelection selection_;
};

}  // namespace

Status MakeGpuPrefill(MeasuredHeadsPtr heads, const CompareOptions& options, std::unique_ptr<PrefillDevice>* made) {
  TimedGpu timed;
  if (Status status = TimedGpu::Create(std::move(heads), options, &timed); !status.ok()) return status;
  *made = std::make_unique<GpuPrefill>(std::move(timed));
  return {};
}

}  // namespace headscope::analysis
