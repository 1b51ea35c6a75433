// Prefill methods on the GPU: it selects and attends there, one right after the other, and only the index and the
// output come back, outside of what is timed.
#include <utility>

#include "compare/model_window.h"
#include "compare/prefill_device.h"
#include "compare/timed_gpu_head.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_select.h"

namespace headscope::analysis {
namespace {

using kernels::Status;
using kernels::StatusCode;

class GpuPrefill final : public PrefillDevice {
 public:
  explicit GpuPrefill(TimedGpuHead timed) : timed_(std::move(timed)) {}

  const std::string& name() const override { return timed_.head->gpu_name(); }
  kernels::AttentionProblem Problem() const override { return timed_.head->host_problem(); }

  Status Run(const kernels::PrefillMethod& method, const kernels::ParameterValues& values, PrefillRun* run) override {
    kernels::CudaSelectSizes sizes;
    Status selects = CheckSelector(method, values, &sizes);
    if (!selects.ok() && selects.code() != StatusCode::kUnsupported) return selects;
    if (Status status = timed_.head->PoisonOutput(); !status.ok()) return status;
    Status status;
    if (selects.ok()) {
      status = SelectAndAttend(method, values, sizes, run);
    } else {
      run->note = method.spec().name + " selects on the CPU: " + selects.message();
      status = AttendSelected(method, values, run);
    }
    return status.ok() ? timed_.head->ReadOutput(timed_.head->head().num_rows, &run->o) : status;
  }

 private:
  // Whether the GPU's selector makes the mask that the CPU's makes on this head. kUnsupported says why not.
  Status CheckSelector(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                       kernels::CudaSelectSizes* sizes) const {
    const HeadTensors& head = timed_.head->head();
    if (WindowHides(head)) {
      return {StatusCode::kUnsupported, "the model attends only the newest " + std::to_string(head.window) +
                                            " tokens here, and the GPU's selectors know no window of a model."};
    }
    // A selector that reads Q and K must not choose by rounded ones: it is asked for the head's own format. (The call
    // looks at no pointer.)
    const kernels::AttentionProblem own = timed_.head->exact() ? timed_.head->host_problem() : head.Problem();
    return kernels::SelectCudaBufferSizes(method.spec().name, own, values, sizes);
  }

  Status SelectAndAttend(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                         const kernels::CudaSelectSizes& sizes, PrefillRun* run) {
    const std::string& name = method.spec().name;
    GpuMemory index, workspace;
    Status status = AllocateOnGpu(static_cast<int64_t>(sizes.index_bytes), "the index of " + name, &index);
    if (status.ok()) {
      status = AllocateOnGpu(static_cast<int64_t>(sizes.workspace_bytes), "the selection of " + name, &workspace);
    }
    if (!status.ok()) return status;
    const kernels::CudaSelectBuffers buffers{index.get(), sizes.index_bytes, workspace.get(), sizes.workspace_bytes};
    kernels::SparseIndexView view;
    const auto select = [&] {
      return kernels::SelectCuda(name, timed_.head->problem(), values, buffers, &view, /*stream=*/nullptr);
    };
    const auto attend = [&] { return Attend(view); };

    if (status = timed_.clock->Time({select, attend}, nullptr); !status.ok()) return status;
    if (status = kernels::DownloadIndex(view, &run->index, /*stream=*/nullptr); !status.ok()) return status;
    // Selectors write their lists unchecked; numbers about a broken index would mean nothing.
    if (status = kernels::Validate(run->index.View()); !status.ok()) {
      return {StatusCode::kDeviceError, "the GPU's " + name + " made an index that is not valid: " + status.message()};
    }
    run->select_device = this->name();
    return timed_.Repeat([&](int32_t repeat) {
      Report(method, repeat);
      std::vector<double> times;
      Status timed = timed_.clock->Time({select, attend}, &times);
      if (!timed.ok()) return timed;
      run->select_ms.push_back(times[0]);
      run->attend_ms.push_back(times[1]);
      return timed;
    });
  }

  // With the CPU's selection.
  Status AttendSelected(const kernels::PrefillMethod& method, const kernels::ParameterValues& values, PrefillRun* run) {
    if (Status status = SelectTimed(timed_.head->head(), method, values, timed_.options, run); !status.ok())
      return status;
    kernels::CudaIndexBuffers uploaded;
    const std::unique_ptr<kernels::CudaIndexBuffers, void (*)(kernels::CudaIndexBuffers*)> release(&uploaded,
                                                                                                   kernels::FreeIndex);
    if (Status status = kernels::UploadIndex(run->index.View(), &uploaded); !status.ok()) return status;
    const auto attend = [&] { return Attend(uploaded.view); };
    if (Status status = timed_.clock->Time({attend}, nullptr); !status.ok()) return status;
    return timed_.Repeat([&](int32_t repeat) {
      Report(method, repeat);
      std::vector<double> times;
      Status timed = timed_.clock->Time({attend}, &times);
      if (timed.ok()) run->attend_ms.push_back(times[0]);
      return timed;
    });
  }

  Status Attend(const kernels::SparseIndexView& index) const {
    return kernels::AttendCuda(timed_.head->problem(), index, timed_.head->output(), /*stream=*/nullptr);
  }

  void Report(const kernels::PrefillMethod& method, int32_t repeat) const {
    timed_.options.Report({method.spec().name, "attend", repeat + 1, timed_.options.repeats});
  }

  const TimedGpuHead timed_;
};

}  // namespace

Status MakeGpuPrefill(HeadTensorsPtr head, const CompareOptions& options, std::unique_ptr<PrefillDevice>* made) {
  TimedGpuHead timed;
  if (Status status = TimedGpuHead::Create(std::move(head), options, &timed); !status.ok()) return status;
  *made = std::make_unique<GpuPrefill>(std::move(timed));
  return {};
}

}  // namespace headscope::analysis
