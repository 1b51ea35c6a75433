// Prefill methods on the GPU: it selects and attends there, one right after the other, and only the index and the
// output come back, outside of what is timed.
#include <utility>

#include "compare/gpu_clock.h"
#include "compare/gpu_head.h"
#include "compare/model_window.h"
#include "compare/prefill_device.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_select.h"
#include "kernels/parallel.h"

namespace headscope::analysis {
namespace {

using kernels::Status;
using kernels::StatusCode;

class GpuPrefill final : public PrefillDevice {
 public:
  GpuPrefill(std::unique_ptr<GpuHead> head, std::unique_ptr<GpuClock> clock, const CompareOptions& options)
      : head_(std::move(head)), clock_(std::move(clock)), options_(options) {}

  const std::string& name() const override { return head_->gpu_name(); }
  kernels::AttentionProblem Problem() const override { return head_->host_problem(); }

  Status Run(const kernels::PrefillMethod& method, const kernels::ParameterValues& values, PrefillRun* run) override {
    kernels::CudaSelectSizes sizes;
    const Status selects = CheckSelector(method, values, &sizes);
    if (!selects.ok() && selects.code() != StatusCode::kUnsupported) return selects;
    if (Status status = head_->PoisonOutput(); !status.ok()) return status;
    Status status;
    if (selects.ok()) {
      status = SelectAndAttend(method, values, sizes, run);
    } else {
      run->note = method.spec().name + " selects on the CPU: " + selects.message();
      status = AttendSelected(method, values, run);
    }
    return status.ok() ? head_->ReadOutput(head_->head().num_rows, &run->o) : status;
  }

 private:
  // Whether the GPU's selector makes the mask that the CPU's makes on this head. kUnsupported says why not.
  Status CheckSelector(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                       kernels::CudaSelectSizes* sizes) const {
    const HeadTensors& head = head_->head();
    if (WindowHides(head)) {
      return {StatusCode::kUnsupported, "the model attends only the newest " + std::to_string(head.window) +
                                            " tokens here, and the GPU's selectors know no window of a model."};
    }
    // A selector that reads Q and K must not choose by rounded ones: it is asked for the head's own format. (The call
    // looks at no pointer.)
    const kernels::AttentionProblem own = head_->exact() ? head_->host_problem() : head.Problem();
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
      return kernels::SelectCuda(name, head_->problem(), values, buffers, &view, /*stream=*/nullptr);
    };
    const auto attend = [&] { return Attend(view); };

    if (status = clock_->Time({select, attend}, nullptr); !status.ok()) return status;
    if (status = kernels::DownloadIndex(view, &run->index, /*stream=*/nullptr); !status.ok()) return status;
    // Selectors write their lists unchecked; numbers about a broken index would mean nothing.
    if (status = kernels::Validate(run->index.View()); !status.ok()) {
      return {StatusCode::kDeviceError, "the GPU's " + name + " made an index that is not valid: " + status.message()};
    }
    run->select_device = this->name();
    return Repeat(name, [&] {
      std::vector<double> times;
      Status timed = clock_->Time({select, attend}, &times);
      if (!timed.ok()) return timed;
      run->select_ms.push_back(times[0]);
      run->attend_ms.push_back(times[1]);
      return timed;
    });
  }

  // With the CPU's selection.
  Status AttendSelected(const kernels::PrefillMethod& method, const kernels::ParameterValues& values, PrefillRun* run) {
    if (Status status = SelectTimed(head_->head(), method, values, options_, run); !status.ok()) return status;
    kernels::CudaIndexBuffers uploaded;
    const std::unique_ptr<kernels::CudaIndexBuffers, void (*)(kernels::CudaIndexBuffers*)> release(&uploaded,
                                                                                                   kernels::FreeIndex);
    if (Status status = kernels::UploadIndex(run->index.View(), &uploaded); !status.ok()) return status;
    const auto attend = [&] { return Attend(uploaded.view); };
    if (Status status = clock_->Time({attend}, nullptr); !status.ok()) return status;
    return Repeat(method.spec().name, [&] {
      std::vector<double> times;
      Status timed = clock_->Time({attend}, &times);
      if (timed.ok()) run->attend_ms.push_back(times[0]);
      return timed;
    });
  }

  Status Attend(const kernels::SparseIndexView& index) const {
    return kernels::AttendCuda(head_->problem(), index, head_->output(), /*stream=*/nullptr);
  }

  template <typename Work>
  Status Repeat(const std::string& method, Work&& work) const {
    for (int32_t repeat = 0; repeat < options_.repeats; ++repeat) {
      if (kernels::IsCancelled(options_.cancelled)) return {StatusCode::kCancelled, "cancelled"};
      options_.Report({method, "attend", repeat + 1, options_.repeats});
      if (Status status = work(); !status.ok()) return status;
    }
    return {};
  }

  const std::unique_ptr<GpuHead> head_;
  const std::unique_ptr<GpuClock> clock_;
  const CompareOptions options_;
};

}  // namespace

Status MakeGpuPrefill(HeadTensorsPtr head, const CompareOptions& options, std::unique_ptr<PrefillDevice>* made) {
  std::unique_ptr<GpuHead> on_gpu;
  if (Status status = GpuHead::Create(std::move(head), &on_gpu); !status.ok()) return status;
  std::unique_ptr<GpuClock> clock;
  if (Status status = GpuClock::Create(&clock); !status.ok()) return status;
  *made = std::make_unique<GpuPrefill>(std::move(on_gpu), std::move(clock), options);
  return {};
}

}  // namespace headscope::analysis
