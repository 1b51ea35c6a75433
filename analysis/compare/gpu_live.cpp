// SPDX-License-Identifier: Apache-2.0
// Live runs on the GPU. A step of a slider is a selection there, the mask's way to the host, one call of the executor,
// and a few blocks of output back.
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "compare/gpu_clock.h"
#include "compare/gpu_heads.h"
#include "compare/gpu_selection.h"
#include "compare/live_gpu.h"
#include "compare/model_window.h"
#include "compare/rounds.h"
#include "head/head_checks.h"
#include "kernels/cuda_devices.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_resources.h"
#include "kernels/prompt_passes.h"
#include "kernels/stop_status.h"

namespace headscope::analysis {
namespace {

using kernels::Status;
using kernels::StatusCode;

// A round of a short head takes the GPU some tenths of a millisecond, and a step of a slider is to take a frame.
constexpr int32_t kLeastLiveRounds = 3;
constexpr double kLiveRoundsMs = 3;

class HeadOnGpuLive final : public LiveGpu {
 public:
  explicit HeadOnGpuLive(HeadTensorsPtr head) : head_(std::move(head)), where_(head_->gpu_device) {}

  Status Open() {
    kernels::CudaDeviceScope scope;
    if (Status status = Enter(&scope); !status.ok()) return status;
    if (Status status = GpuHeads::Create(AloneHead(head_), &heads_); !status.ok()) return status;
    if (!heads_->exact()) {
      return {StatusCode::kUnsupported, "head " + HeadName(head_->id) +
                                            " holds values that neither bf16 nor fp16 has, so the GPU would round "
                                            "them: record it in bf16"};
    }
    const kernels::ParameterValues none(kernels::PrefillBaseline().spec());
    kernels::SparseIndex dense;
    Status status = SelectOnHead(*head_, kernels::PrefillBaseline(), none, {}, &dense);
    return status.ok() ? kernels::UploadIndex(dense.View(), &dense_) : status;
  }

  Status Select(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                kernels::SparseIndex* index, double* select_ms) override {
    const std::lock_guard lock(mutex_);
    kernels::CudaDeviceScope scope;
    if (Status status = Enter(&scope); !status.ok()) return status;
    const kernels::ParameterValues of_prompt = kernels::AtPromptLength(method, values, head_->prompt_tokens);
    kernels::CudaSelectPlan plan;
    kernels::SparseIndexView view;
    Status status = GpuSelection::Plan(*heads_, method, of_prompt, &plan);
    if (status.ok()) status = selection_.Reserve(plan);
    if (status.ok() && begun_ == nullptr) status = kernels::MakeEvent(&begun_);
    if (status.ok() && ended_ == nullptr) status = kernels::MakeEvent(&ended_);
    if (status.ok()) status = Record(begun_);
    if (status.ok()) status = selection_.Select(*heads_, plan, of_prompt, &view);
    if (status.ok()) status = Record(ended_);
    if (status.ok()) status = kernels::DownloadChecked(plan, view, index, /*stream=*/nullptr);
    return status.ok() ? kernels::MillisecondsBetween(begun_, ended_, select_ms) : status;
  }

  Status Attend(const kernels::SparseIndexView& index, std::span<const LiveRows> rows,
                std::vector<float>* outputs) override {
    const std::lock_guard lock(mutex_);
    kernels::CudaDeviceScope scope;
    if (Status status = Enter(&scope); !status.ok()) return status;
    kernels::CudaIndexBuffers uploaded;
    if (Status status = kernels::UploadIndex(index, &uploaded); !status.ok()) return status;
    return AttendAndRead(uploaded.view, rows, outputs);
  }

  Status AttendDense(std::span<const LiveRows> rows, std::vector<float>* outputs) override {
    const std::lock_guard lock(mutex_);
    kernels::CudaDeviceScope scope;
    if (Status status = Enter(&scope); !status.ok()) return status;
    return AttendAndRead(dense_.view, rows, outputs);
  }

  Status Time(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
              const kernels::SparseIndexView& index, const std::stop_token& stop, LiveRun* run) override {
    const std::lock_guard lock(mutex_);
    kernels::CudaDeviceScope scope;
    if (Status status = Enter(&scope); !status.ok()) return status;
    if (clock_ == nullptr) {
      if (Status status = GpuClock::Create(&clock_); !status.ok()) return status;
    }
    kernels::CudaIndexBuffers uploaded;
    if (Status status = kernels::UploadIndex(index, &uploaded); !status.ok()) return status;
    const kernels::PrefillMethod& dense = kernels::PrefillBaseline();
    const kernels::ParameterValues none(dense.spec());
    std::vector<RoundEntry> entries(2);
    if (Status status = SetEntry(dense, none, dense_.view, &entries[0]); !status.ok()) return status;
    if (Status status =
            SetEntry(method, kernels::AtPromptLength(method, values, head_->prompt_tokens), uploaded.view, &entries[1]);
        !status.ok())
      return status;
    // The first run of each warms up.
    for (RoundEntry& entry : entries) {
      if (stop.stop_requested()) return kernels::Stopped();
      double select_ms = 0, attend_ms = 0;
      if (Status status = entry.once(&select_ms, &attend_ms); !status.ok()) return status;
    }
    CompareOptions rounds;
    rounds.repeats = kLeastLiveRounds;
    rounds.least_ms = kLiveRoundsMs;
    rounds.stop = stop;
    if (Status status = RunRounds(rounds, kernels::Phase::kPrefill, &entries); !status.ok()) return status;
    run->dense_attend_ms = entries[0].Attend().median_ms;
    run->attend_ms = entries[1].Attend().median_ms;
    run->rounds = entries[1].Attend().repeats;
    run->device = where_;
    return {};
  }

 private:
  Status Enter(kernels::CudaDeviceScope* scope) const { return scope->Enter(where_.device.ordinal); }

  Status AttendTo(const kernels::SparseIndexView& index) const {
    return kernels::AttendCuda(heads_->problem(), index, heads_->output(), /*stream=*/nullptr);
  }

  Status AttendAndRead(const kernels::SparseIndexView& index, std::span<const LiveRows> rows,
                       std::vector<float>* outputs) {
    if (Status status = heads_->PoisonOutput(); !status.ok()) return status;
    if (Status status = AttendTo(index); !status.ok()) return status;
    std::vector<float> block;
    for (const LiveRows& wanted : rows) {
      if (Status status = heads_->ReadOutput(wanted.begin, wanted.end - wanted.begin, &block); !status.ok())
        return status;
      outputs->insert(outputs->end(), block.begin(), block.end());
    }
    return {};
  }

  static Status Record(const kernels::CudaEvent& event) {
    return kernels::CudaStatus(cudaEventRecord(event.get(), nullptr), "recording a CUDA event");
  }

  // Selects and attends one behind the other, as a comparison does, where the GPU has the selector; else attends to
  // `chosen`, which lies there.
  Status SetEntry(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                  const kernels::SparseIndexView& chosen, RoundEntry* entry) {
    kernels::CudaSelectPlan plan;
    Status planned = GpuSelection::Plan(*heads_, method, values, &plan);
    if (planned.ok()) planned = selection_.Reserve(plan);
    // As Select, of which the caller has made what is chosen on the CPU.
    if (planned.code() == StatusCode::kUnsupported || planned.code() == StatusCode::kOutOfMemory) {
      entry->once = [this, chosen](double*, double* attend_ms) {
        std::vector<double> times;
        Status status = clock_->Time({[&] { return AttendTo(chosen); }}, &times);
        if (status.ok()) *attend_ms = times[0];
        return status;
      };
      return {};
    }
    if (!planned.ok()) return planned;
    entry->once = [this, plan, values](double* select_ms, double* attend_ms) {
      kernels::SparseIndexView view;
      if (Status status = selection_.Reserve(plan); !status.ok()) return status;
      std::vector<double> times;
      Status status = clock_->Time(
          {[&] { return selection_.Select(*heads_, plan, values, &view); }, [&] { return AttendTo(view); }}, &times);
      if (!status.ok()) return status;
      *select_ms = times[0];
      *attend_ms = times[1];
      return Status{};
    };
    return {};
  }

  const HeadTensorsPtr head_;
  const NamedDevice where_;
  std::mutex mutex_;
  std::unique_ptr<GpuHeads> heads_;
  std::unique_ptr<GpuClock> clock_;  // of what is timed; it holds much memory
  kernels::CudaEvent begun_, ended_;
  GpuSelection selection_;
  kernels::CudaIndexBuffers dense_;
};

}  // namespace

Status MakeLiveGpu(const HeadTensorsPtr& head, std::unique_ptr<LiveGpu>* made) {
  auto live = std::make_unique<HeadOnGpuLive>(head);
  Status status = live->Open();
  if (status.ok()) *made = std::move(live);
  return status;
}

}  // namespace headscope::analysis
