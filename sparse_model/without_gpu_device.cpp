// SPDX-License-Identifier: Apache-2.0
// Models on a GPU in a build without CUDA: a sentence.
#include "kernels/cuda_executor.h"
#include "model_device.h"

namespace headscope::sparse_model {
namespace {

using kernels::Status;

class NoGpu final : public ModelDevice {
 public:
  Status Begin(const model::AttentionCall&) override { return Refusal(); }
  Status OnHost(const model::AttentionCall&, kernels::AttentionProblem*) override { return Refusal(); }
  Status Prefill(const model::AttentionCall&, const kernels::PrefillMethod&, const kernels::ParameterValues&,
                 kernels::SparseIndex*, std::string*) override {
    return Refusal();
  }
  Status Decode(const model::AttentionCall&, int32_t, const kernels::DecodeSelection&) override { return Refusal(); }
  Status WholeLse(const model::AttentionCall&) override { return Refusal(); }
  Status Output(const model::AttentionCall&, kernels::AttentionOutput*) override { return Refusal(); }

 private:
  static Status Refusal() {
    kernels::CudaDeviceInfo info;
    return kernels::QueryCudaDevice(0, &info);  // always refuses here
  }
};

}  // namespace

std::unique_ptr<ModelDevice> MakeGpuDevice(const kernels::RunOptions&) {
  return std::make_unique<NoGpu>();
}

}  // namespace headscope::sparse_model
