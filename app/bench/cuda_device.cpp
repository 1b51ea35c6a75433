// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <utility>

#include "base/check_status.h"
#include "base/errors.h"
#include "bench/bench_device.h"
#include "bench/cuda_decode_work.h"
#include "bench/host_tensors.h"
#include "bench/placed_problem.h"
#include "bench/sustain.h"
#include "kernels/cuda_cold_cache.h"
#include "kernels/cuda_devices.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_fp8.h"
#include "kernels/cuda_prefill_selection.h"

namespace headscope::app::bench {
namespace {

using kernels::DType;

void Check(cudaError_t error, const char* what) {
  CheckStatus(kernels::CudaStatus(error, what));
}

std::shared_ptr<void> AllocateOnGpu(int64_t bytes, const char* what) {
  kernels::DeviceMemory memory;
  CheckStatus(kernels::AllocateOnDevice(bytes, what, &memory));
  return memory;
}

class CudaDevice : public BenchDevice {
 public:
  CudaDevice(const DeviceOptions& options, std::string name)
      : options_{.num_threads = options.num_threads, .stop = options.stop}, name_(std::move(name)) {
    int number = 0;
    Check(cudaGetDevice(&number), "asking for the current GPU");
    device_ = {DeviceKind::kCuda, number};
    CheckStatus(kernels::ColdCache::Create(&cold_));
    CheckStatus(kernels::MakeEvent(&start_));
    CheckStatus(kernels::MakeEvent(&stop_));
  }

  std::string name() const override { return name_; }
  Device device() const override { return device_; }
  std::string cache_policy() const override {
    return std::to_string(cold_.bytes() >> 20) + " MiB of other data read before each timed run (cold L2)";
  }

  std::shared_ptr<void> Allocate(int64_t bytes) override { return AllocateOnGpu(bytes, "the benchmark's problem"); }
  void Upload(const void* host, int64_t bytes, void* device) override {
    CheckStatus(kernels::CopyToDevice(host, bytes, device));
  }
  void Download(const void* device, int64_t bytes, void* host) override {
    CheckStatus(kernels::CopyFromDevice(device, bytes, host));
  }
  bool is_host() const override { return false; }
  DType OutputType(DType dtype) const override { return dtype; }

  double Milliseconds(const std::function<void()>& work) override {
    // In the time that it takes, the host gets ahead: what it costs to start a kernel from there is not in the figure.
    CheckStatus(cold_.Fill(nullptr));
    Check(cudaEventRecord(start_.get(), nullptr), "starting the GPU's clock");
    work();
    Check(cudaEventRecord(stop_.get(), nullptr), "stopping the GPU's clock");
    Check(cudaEventSynchronize(stop_.get()), "a timed run on the GPU");
    double ms = 0;
    CheckStatus(kernels::MillisecondsBetween(start_, stop_, &ms));
    return ms;
  }

  double SustainedMilliseconds(const std::function<void()>& work, double seconds,
                               const std::stop_token& stop) override {
    return Sustain(seconds, stop, [&](int runs) {
      Check(cudaEventRecord(start_.get(), nullptr), "starting the GPU's clock");
      for (int i = 0; i < runs; ++i) work();
      Check(cudaEventRecord(stop_.get(), nullptr), "stopping the GPU's clock");
      Check(cudaEventSynchronize(stop_.get()), "a timed run on the GPU");
      double ms = 0;
      CheckStatus(kernels::MillisecondsBetween(start_, stop_, &ms));
      return ms;
    });
  }

  PrefillWork Attend(const PlacedProblem& placed, kernels::SparseIndex index) override {
    index = InsideWindow(placed, std::move(index));
    // Shared, so that copies of the work keep the device's lists alive.
    const auto uploaded = std::make_shared<kernels::CudaIndexBuffers>();
    CheckStatus(kernels::UploadIndex(index.View(), uploaded.get()));
    PrefillWork work;
    work.index = std::move(index);
    work.attend = [&placed, uploaded] {
      CheckStatus(kernels::AttendCuda(placed.problem, uploaded->view, placed.output, nullptr));
    };
    return work;
  }

  PrefillWork AttendFp8(const PlacedProblem& placed, kernels::SparseIndex index) override {
    struct State {
      kernels::CudaIndexBuffers index;
      std::shared_ptr<void> tensors;
      size_t bytes = 0;
    };
    kernels::Fp8Layout layout;
    CheckStatus(kernels::LayOutFp8(placed.problem, &layout));
    index = InsideWindow(placed, std::move(index));
    const auto state = std::make_shared<State>();
    CheckStatus(kernels::UploadIndex(index.View(), &state->index));
    state->bytes = layout.bytes;
    state->tensors = AllocateOnGpu(static_cast<int64_t>(layout.bytes), "quantised Q, K and V");
    PrefillWork work;
    work.variant = "select quantises";
    work.index = std::move(index);
    work.select = [&placed, state] {
      CheckStatus(kernels::QuantiseFp8Cuda(placed.problem, state->tensors.get(), state->bytes, nullptr));
    };
    work.attend = [&placed, state] {
      CheckStatus(kernels::AttendFp8Cuda(placed.problem, state->tensors.get(), state->bytes, state->index.view,
                                         placed.output, nullptr));
    };
    work.select();
    return work;
  }

  std::function<void()> AttendTokens(const kernels::TokenAttention& attention) override {
    return [attention] { CheckStatus(kernels::AttendTokensCuda(attention, nullptr)); };
  }

  PrefillWork SelectAndAttend(const PlacedProblem& placed, const kernels::PrefillMethod& method,
                              const kernels::ParameterValues& values) override {
    kernels::CudaSelectPlan plan;
    const kernels::Status selects = kernels::PlanCudaSelection(method, placed.problem, placed.window, values, &plan);
    if (selects.code() == kernels::StatusCode::kUnsupported) return SelectOnCpu(placed, method, values);
    CheckStatus(selects);
    return SelectOnGpu(placed, plan, values);
  }

  std::vector<DecodeWork> Decode(const PlacedProblem& placed, const kernels::DecodeMethod& method,
                                 const kernels::ParameterValues& values) override {
    return CudaDecodeWork(*this, placed, method, values, options_);
  }

 private:
  PrefillWork SelectOnGpu(const PlacedProblem& placed, const kernels::CudaSelectPlan& plan,
                          const kernels::ParameterValues& values) {
    struct State {
      kernels::CudaSelectMemory memory;
      kernels::SparseIndexView view;
    };
    const auto state = std::make_shared<State>();
    CheckStatus(state->memory.Reserve(plan));
    PrefillWork work;
    work.select = [&placed, plan, values, state] {
      CheckStatus(state->memory.Select(plan, placed.problem, values, &state->view, nullptr));
    };
    work.attend = [&placed, state] {
      CheckStatus(kernels::AttendCuda(placed.problem, state->view, placed.output, nullptr));
    };
    work.select();
    CheckStatus(kernels::DownloadChecked(plan, state->view, &work.index, nullptr));
    return work;
  }

  // What a method without a selector for GPUs runs on: the host's copy of Q and K, and the index of the last selection
  // on the GPU.
  struct PrefillState {
    HostTensors host;
    kernels::SparseIndex index;
    kernels::CudaIndexBuffers uploaded;
  };

  // Its selection is timed with the index's way to the GPU; Q and K are on the host beforehand.
  PrefillWork SelectOnCpu(const PlacedProblem& placed, const kernels::PrefillMethod& method,
                          const kernels::ParameterValues& values) {
    const auto state = std::make_shared<PrefillState>();
    state->host.Download(*this, placed.problem, /*with_values=*/false);
    PrefillWork work;
    work.variant = "selects on the CPU";
    work.select = [this, &method, &placed, values, state] {
      kernels::SparseIndex made;
      CheckStatus(method.Select(state->host.problem, values, options_, &made));
      state->index = InsideWindow(placed, std::move(made));
      state->uploaded = {};  // before the new lists take memory
      CheckStatus(kernels::UploadIndex(state->index.View(), &state->uploaded));
    };
    work.attend = [&placed, state] {
      CheckStatus(kernels::AttendCuda(placed.problem, state->uploaded.view, placed.output, nullptr));
    };
    work.select();
    work.index = state->index;
    return work;
  }

  kernels::RunOptions options_;
  std::string name_;
  Device device_;
  kernels::ColdCache cold_;
  kernels::CudaEvent start_, stop_;
};

}  // namespace

std::unique_ptr<BenchDevice> MakeCudaDevice(const DeviceOptions& options) {
  // Before anything of CUDA is made, so that a machine without a GPU is told so.
  std::string name;
  CheckStatus(kernels::NameOfCudaDevice(&name));
  return std::make_unique<CudaDevice>(options, std::move(name));
}

}  // namespace headscope::app::bench
