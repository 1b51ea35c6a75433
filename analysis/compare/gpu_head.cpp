#include "compare/gpu_head.h"

#include <utility>

#include "head/head_checks.h"
#include "kernels/contiguous.h"
#include "kernels/cuda_devices.h"

namespace headscope::analysis {
namespace {

using kernels::Status;

int64_t BytesOf(const std::vector<uint16_t>& values) {
  return static_cast<int64_t>(values.size() * sizeof(uint16_t));
}

Status Upload(const std::vector<uint16_t>& values, const std::string& what, GpuMemory* memory) {
  if (Status status = AllocateOnGpu(BytesOf(values), what, memory); !status.ok()) return status;
  return UploadToGpu(values.data(), BytesOf(values), memory->get());
}

}  // namespace

Status GpuHead::Create(HeadTensorsPtr head, std::unique_ptr<GpuHead>* made) {
  std::unique_ptr<GpuHead> gpu(new GpuHead);
  if (Status status = kernels::NameOfCudaDevice(&gpu->gpu_name_); !status.ok()) return status;
  gpu->narrow_ = ToSixteenBits(*head);
  const std::string of_head = " of head " + HeadName(head->id);
  gpu->head_ = std::move(head);
  Status status = Upload(gpu->narrow_.q, "Q" + of_head, &gpu->q_);
  if (status.ok()) status = Upload(gpu->narrow_.k, "K" + of_head, &gpu->k_);
  if (status.ok()) status = Upload(gpu->narrow_.v, "V" + of_head, &gpu->v_);
  if (status.ok()) status = AllocateOnGpu(BytesOf(gpu->narrow_.q), "O" + of_head, &gpu->o_);
  if (!status.ok()) return status;
  gpu->problem_ = gpu->host_problem();
  gpu->problem_.q.data = gpu->q_.get();
  gpu->problem_.k.data = gpu->k_.get();
  gpu->problem_.v.data = gpu->v_.get();
  gpu->output_.o =
      kernels::ContiguousTensor<void>(gpu->o_.get(), /*num_heads=*/1, gpu->problem_.seq_q, gpu->problem_.head_dim);
  *made = std::move(gpu);
  return {};
}

Status GpuHead::PoisonOutput() {
  return GpuStatus(cudaMemset(o_.get(), 0xFF, static_cast<size_t>(BytesOf(narrow_.q))), "preparing the GPU's output");
}

Status GpuHead::ReadOutput(int64_t rows, std::vector<float>* o) const {
  std::vector<uint16_t> narrow(static_cast<size_t>(rows * head_->head_dim));
  if (Status status = DownloadFromGpu(o_.get(), BytesOf(narrow), narrow.data()); !status.ok()) return status;
  *o = Widen(narrow, narrow_.dtype);
  return {};
}

}  // namespace headscope::analysis
