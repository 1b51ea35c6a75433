// SPDX-License-Identifier: Apache-2.0
// A model in host memory: the CPU's selectors and executors.
#include <algorithm>
#include <vector>

#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"
#include "kernels/cpu_scores.h"
#include "kernels/index_window.h"
#include "kernels/narrow_floats.h"
#include "model_device.h"

namespace headscope::sparse_model {
namespace {

using kernels::Status;

class HostDevice final : public ModelDevice {
 public:
  explicit HostDevice(const kernels::RunOptions& options) : options_(options) {}

  Status Begin(const model::AttentionCall& call) override {
    options_.stop = call.stop;
    return {};
  }

  Status OnHost(const model::AttentionCall& call, kernels::AttentionProblem* host) override {
    *host = ProblemOf(call);
    return {};
  }

  Status Prefill(const model::AttentionCall& call, const kernels::PrefillMethod& method,
                 const kernels::ParameterValues& values, kernels::SparseIndex* index, std::string*) override {
    const kernels::AttentionProblem problem = ProblemOf(call);
    if (Status status = method.Select(problem, values, options_, index); !status.ok()) return status;
    // As comparisons and GPUs cut it, so that a method keeps the same wherever it runs.
    if (problem.window > 0 && problem.window < problem.seq_k)
      *index = kernels::CutToWindow(index->View(), problem.window);
    Status status = kernels::AttendCpu(problem, index->View(), Wide(call), options_);
    if (status.ok()) Narrow(call);
    return status;
  }

  Status Decode(const model::AttentionCall& call, int32_t first_token,
                const kernels::DecodeSelection& selection) override {
    Status status = kernels::DecodeCpu(StepFrom(ProblemOf(call), first_token), selection, Wide(call), options_);
    if (status.ok()) Narrow(call);
    return status;
  }

  Status WholeLse(const model::AttentionCall& call) override {
    return kernels::RowLse(ProblemOf(call), call.facts->window, options_, call.lse);
  }

  Status Output(const model::AttentionCall& call, kernels::AttentionOutput* output) override {
    *output = Wide(call);
    return {};
  }

 private:
  static size_t OutputSize(const model::AttentionCall& call) {
    return static_cast<size_t>(call.num_rows * call.facts->num_qo_heads * call.facts->v_head_dim);
  }

  // Executors write fp32.
  kernels::AttentionOutput Wide(const model::AttentionCall& call) {
    auto* o = static_cast<float*>(call.o);
    if (call.type == ElementType::kBFloat16) {
      wide_.resize(OutputSize(call));
      o = wide_.data();
    }
    return {kernels::ContiguousTensor<void>(o, call.facts->num_qo_heads, call.num_rows, call.facts->v_head_dim),
            call.lse};
  }

  void Narrow(const model::AttentionCall& call) const {
    if (call.type == ElementType::kBFloat16)
      std::transform(wide_.begin(), wide_.end(), static_cast<uint16_t*>(call.o), &kernels::RoundToBFloat16);
  }

  kernels::RunOptions options_;  // stop: of the call
  std::vector<float> wide_;
};

}  // namespace

std::unique_ptr<ModelDevice> MakeHostDevice(const kernels::RunOptions& options) {
  return std::make_unique<HostDevice>(options);
}

}  // namespace headscope::sparse_model
