// SPDX-License-Identifier: Apache-2.0
#include "compare/gpu_heads.h"

#include <utility>

#include "head/head_on_gpu.h"
#include "kernels/contiguous.h"

namespace headscope::analysis {
namespace {

using kernels::Status;

int64_t BytesOf(const std::vector<uint16_t>& values) {
  return static_cast<int64_t>(values.size() * sizeof(uint16_t));
}

Status Upload(const std::vector<uint16_t>& values, const std::string& what, kernels::DeviceMemory* memory) {
  if (Status status = kernels::AllocateOnDevice(BytesOf(values), what, memory); !status.ok()) return status;
  return kernels::CopyToDevice(values.data(), BytesOf(values), memory->get());
}

}  // namespace

Status GpuHeads::Create(MeasuredHeadsPtr heads, std::unique_ptr<GpuHeads>* made) {
  std::unique_ptr<GpuHeads> gpu(new GpuHeads);
  if (Status status = CurrentGpu(&gpu->device_); !status.ok()) return status;
  gpu->narrow_ = ToSixteenBits(heads->q, heads->k, heads->v);
  const std::string of_heads = " of " + heads->Name();
  gpu->heads_ = std::move(heads);
  Status status = Upload(gpu->narrow_.q, "Q" + of_heads, &gpu->q_);
  if (status.ok()) status = Upload(gpu->narrow_.k, "K" + of_heads, &gpu->k_);
  if (status.ok()) status = Upload(gpu->narrow_.v, "V" + of_heads, &gpu->v_);
  if (status.ok()) status = kernels::AllocateOnDevice(gpu->OutputBytes(), "O" + of_heads, &gpu->o_);
  if (!status.ok()) return status;
  gpu->problem_ = gpu->host_problem();
  gpu->problem_.q.data = gpu->q_.get();
  gpu->problem_.k.data = gpu->k_.get();
  gpu->problem_.v.data = gpu->v_.get();
  const kernels::AttentionProblem& problem = gpu->problem_;
  gpu->output_.o =
      kernels::ContiguousTensor<void>(gpu->o_.get(), problem.num_qo_heads, problem.seq_q, problem.ValueDim());
  gpu->step_output_.o = kernels::ContiguousTensor<void>(gpu->o_.get(), problem.num_qo_heads, 1, problem.ValueDim());
  *made = std::move(gpu);
  return {};
}

int64_t GpuHeads::OutputBytes() const {
  return heads_->num_qo_heads * heads_->num_rows * heads_->ValueDim() * int64_t{sizeof(uint16_t)};
}

Status GpuHeads::PoisonOutput() {
  return kernels::CudaStatus(cudaMemset(o_.get(), 0xFF, static_cast<size_t>(OutputBytes())),
                             "preparing the GPU's output");
}

Status GpuHeads::ReadOutput(int64_t first, int64_t vectors, std::vector<float>* o) const {
  std::vector<uint16_t> narrow(static_cast<size_t>(vectors * heads_->ValueDim()));
  const auto* const from = static_cast<const uint16_t*>(o_.get()) + first * heads_->ValueDim();
  if (Status status = kernels::CopyFromDevice(from, BytesOf(narrow), narrow.data()); !status.ok()) return status;
  *o = Widen(narrow, narrow_.dtype);
  return {};
}

}  // namespace headscope::analysis
