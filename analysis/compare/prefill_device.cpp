#include "compare/prefill_device.h"

#include <bit>
#include <cstdint>

#include "analysis/types/timing.h"
#include "internal/parallel.h"
#include "kernels/cpu_executor.h"
#include "kernels/cuda_executor.h"

namespace headscope::analysis {
namespace {

using kernels::Status;
using kernels::StatusCode;

class CpuDevice final : public PrefillDevice {
 public:
  CpuDevice(HeadTensorsPtr head, int32_t num_threads, const std::atomic<bool>* cancelled)
      : head_(std::move(head)), options_{num_threads, cancelled} {}

  const std::string& name() const override { return name_; }
  kernels::AttentionProblem Problem() const override { return head_->Problem(); }

  Status Attend(const kernels::SparseIndexView& index, int32_t repeats, std::vector<float>* o,
                std::vector<double>* milliseconds) override {
    const int64_t size = head_->num_rows * head_->head_dim;
    o->assign(static_cast<size_t>(size), 0.0f);
    kernels::AttentionOutput output;
    output.o = {o->data(), size, size, head_->head_dim};
    milliseconds->clear();
    for (int32_t run = 0; run <= repeats; ++run) {
      const Stopwatch watch;
      if (Status status = kernels::AttendCpu(head_->Problem(), index, output, options_); !status.ok()) return status;
      if (run > 0) milliseconds->push_back(watch.Milliseconds());
    }
    return {};
  }

 private:
  const HeadTensorsPtr head_;
  const kernels::RunOptions options_;
  const std::string name_ = "cpu";
};

// Round to nearest, ties to even; finite input (LoadHead refuses anything else).
std::vector<uint16_t> ToBFloat16(const std::vector<float>& values) {
  std::vector<uint16_t> rounded(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto bits = std::bit_cast<uint32_t>(values[i]);
    rounded[i] = static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
  }
  return rounded;
}

class CudaDevice final : public PrefillDevice {
 public:
  CudaDevice(HeadTensorsPtr head, std::string name, const std::atomic<bool>* cancelled)
      : head_(std::move(head)),
        name_(std::move(name)),
        cancelled_(cancelled),
        q_(ToBFloat16(head_->q)),
        k_(ToBFloat16(head_->k)),
        v_(ToBFloat16(head_->v)) {}

  const std::string& name() const override { return name_; }

  kernels::AttentionProblem Problem() const override {
    kernels::AttentionProblem problem = head_->Problem();
    problem.dtype = kernels::DType::kBFloat16;
    problem.q.data = q_.data();
    problem.k.data = k_.data();
    problem.v.data = v_.data();
    return problem;
  }

  Status Attend(const kernels::SparseIndexView& index, int32_t repeats, std::vector<float>* o,
                std::vector<double>* milliseconds) override {
    const int64_t size = head_->num_rows * head_->head_dim;
    std::vector<uint16_t> rounded(static_cast<size_t>(size));
    kernels::AttentionOutput output;
    output.o = {rounded.data(), size, size, head_->head_dim};
    milliseconds->clear();
    // One call gives only the median of its runs; one call per run gives their spread too.
    for (int32_t run = 0; run < repeats; ++run) {
      if (IsCancelled(cancelled_)) return {StatusCode::kCancelled, "cancelled"};
      double attend_ms = 0;
      if (Status status = kernels::AttendCudaFromHost(Problem(), index, output, 1, &attend_ms); !status.ok())
        return status;
      milliseconds->push_back(attend_ms);
    }
    o->resize(static_cast<size_t>(size));
    for (size_t i = 0; i < rounded.size(); ++i) (*o)[i] = std::bit_cast<float>(uint32_t{rounded[i]} << 16);
    return {};
  }

 private:
  const HeadTensorsPtr head_;
  const std::string name_;
  const std::atomic<bool>* cancelled_;
  const std::vector<uint16_t> q_, k_, v_;
};

}  // namespace

Status MakePrefillDevice(const std::string& device, HeadTensorsPtr head, int32_t num_threads,
                         const std::atomic<bool>* cancelled, std::unique_ptr<PrefillDevice>* made) {
  if (device == "cpu") {
    *made = std::make_unique<CpuDevice>(std::move(head), num_threads, cancelled);
    return {};
  }
  if (device == "cuda") {
    kernels::CudaDeviceInfo info;
    if (Status status = kernels::QueryCudaDevice(0, &info); !status.ok()) return status;
    *made = std::make_unique<CudaDevice>(std::move(head), info.name, cancelled);
    return {};
  }
  return {StatusCode::kInvalidArgument, "device '" + device + "' is unknown: choose cpu or cuda"};
}

}  // namespace headscope::analysis
