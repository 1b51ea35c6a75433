// SPDX-License-Identifier: Apache-2.0
// A prefill method's selection on the GPU, as everything that runs methods there does it: whether its selector is
// taken, the memory it needs, and its index on the host. What is not taken selects on the CPU, and says why.
#pragma once

#include "kernels/cuda_resources.h"
#include "kernels/cuda_select.h"

namespace headscope::kernels {

// A method's selector for one problem and one set of values.
struct CudaSelectPlan {
  const CudaSelector* selector = nullptr;
  CudaSelectSizes sizes;
};
// `problem` as the method's scores are to be read: its shape and dtype count, no pointer is looked at. window: > 0
// where the model hides older keys from a row, which selectors for GPUs do not know. kUnsupported says why the CPU has
// to select, in a clause that goes on from "METHOD selects on the CPU: "; other errors are SelectCudaBufferSizes'.
inline Status PlanCudaSelection(const PrefillMethod& method, const AttentionProblem& problem, int32_t window,
                                const ParameterValues& values, CudaSelectPlan* plan) {
  plan->selector = FindCudaSelector(method);
  if (plan->selector == nullptr) return {StatusCode::kUnsupported, "it has no selector for GPUs."};
  if (window > 0) {
    return {StatusCode::kUnsupported, "the layer attends only the newest " + std::to_string(window) +
                                          " tokens, and the GPU's selectors know no window of a model."};
  }
  return SelectCudaBufferSizes(*plan->selector, problem, values, &plan->sizes);
}

// Memory that the selections of one thread share, one after the other.
class CudaSelectMemory {
 public:
  // Room for the plan: what it lacks is allocated. Errors: kOutOfMemory, the GPU's.
  Status Reserve(const CudaSelectPlan& plan) {
    const std::string& name = plan.selector->spec->name;
    Status status = index_.Reserve(plan.sizes.index_bytes, "the index of " + name);
    return status.ok() ? workspace_.Reserve(plan.sizes.workspace_bytes, "the selection of " + name) : status;
  }
  // As SelectCuda, in this memory: the index lives until the next call. Without enough memory it allocates.
  Status Select(const CudaSelectPlan& plan, const AttentionProblem& problem, const ParameterValues& values,
                SparseIndexView* index, void* stream) {
    if (Status status = Reserve(plan); !status.ok()) return status;
    return SelectCuda(*plan.selector, problem, values,
                      {index_.memory.get(), index_.bytes, workspace_.memory.get(), workspace_.bytes}, index, stream);
  }

 private:
  GrowingDeviceMemory index_, workspace_;
};

// DownloadIndex, checked: selectors write their lists without a check, and numbers about a broken index would mean
// nothing. kDeviceError names the method.
inline Status DownloadChecked(const CudaSelectPlan& plan, const SparseIndexView& index, SparseIndex* host,
                              void* stream) {
  if (Status status = DownloadIndex(index, host, stream); !status.ok()) return status;
  if (Status status = Validate(host->View()); !status.ok()) {
    return {StatusCode::kDeviceError,
            "the GPU's " + plan.selector->spec->name + " made an index that is not valid: " + status.message()};
  }
  return {};
}

}  // namespace headscope::kernels
