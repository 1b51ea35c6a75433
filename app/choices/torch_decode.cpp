// SPDX-License-Identifier: Apache-2.0
#include "choices/torch_decode.h"

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/device.h"
#include "base/errors.h"
#include "model/reference_attention.h"
#include "support/reference_problem.h"

namespace headscope::app {
namespace {

using kernels::Status;
using kernels::StatusCode;

// What a LibTorch that refuses says, as the status of its kind.
Status StatusOf(const std::string& what, const std::exception& refused) {
  const bool missing =
      dynamic_cast<const DeviceError*>(&refused) != nullptr || dynamic_cast<const std::bad_alloc*>(&refused) != nullptr;
  return {missing ? StatusCode::kDeviceMissing : StatusCode::kDeviceError, what + refused.what()};
}

class TorchStep final : public analysis::OtherDecode {
 public:
  explicit TorchStep(std::unique_ptr<model::ReferenceAttention> attention) : attention_(std::move(attention)) {}

  Status Run() override {
    try {
      attention_->Run();
    } catch (const std::exception& refused) {
      return StatusOf("LibTorch's decode: ", refused);
    }
    return {};
  }

 private:
  const std::unique_ptr<model::ReferenceAttention> attention_;
};

}  // namespace

analysis::OtherDense TorchDecode(int32_t num_threads) {
  analysis::OtherDense torch;
  torch.name = "LibTorch";
  torch.make = [num_threads](const kernels::AttentionProblem& step, std::unique_ptr<analysis::OtherDecode>* made) {
    model::ReferenceAttentionProblem problem = ReferenceProblem(step);
    // A query head's one row lies a whole head behind the row of the head before.
    problem.q_head_stride = step.q.head_stride;
    problem.kv_head_stride = step.k.head_stride;
    try {
      *made = std::make_unique<TorchStep>(model::MakeReferenceAttention(problem, kCpu, num_threads));
    } catch (const std::exception& refused) {
      return StatusOf("LibTorch's decode: ", refused);
    }
    return Status{};
  };
  return torch;
}

}  // namespace headscope::app
