// SPDX-License-Identifier: Apache-2.0
// Prefill methods select on heads that lie on the GPU: comparisons and live runs alike.
#pragma once

#include "compare/gpu_heads.h"
#include "compare/model_window.h"
#include "kernels/cuda_prefill_selection.h"
#include "kernels/method.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::analysis {

// `values` are those at the prompt's length (kernels::AtPromptLength), as SelectInside takes them on the CPU.
class GpuSelection {
 public:
  // Whether the GPU's selector, if there is one, makes the mask that the CPU's makes on these heads. kUnsupported says
  // why not.
  static kernels::Status Plan(const GpuHeads& gpu, const kernels::PrefillMethod& method,
                              const kernels::ParameterValues& values, kernels::CudaSelectPlan* plan) {
    const MeasuredHeads& heads = gpu.heads();
    // A selector that reads Q and K must not choose by rounded ones: it is asked for the heads' own format.
    const kernels::AttentionProblem own = gpu.exact() ? gpu.host_problem() : heads.Problem();
    return kernels::PlanCudaSelection(method, own, WindowHides(heads) ? heads.window : 0, values, plan);
  }

  kernels::Status Reserve(const kernels::CudaSelectPlan& plan) { return memory_.Reserve(plan); }
  // Enqueues it. The index lives until the next call.
  kernels::Status Select(const GpuHeads& gpu, const kernels::CudaSelectPlan& plan,
                         const kernels::ParameterValues& values, kernels::SparseIndexView* view) {
    return memory_.Select(plan, gpu.problem(), values, view, /*stream=*/nullptr);
  }

 private:
  kernels::CudaSelectMemory memory_;
};

}  // namespace headscope::analysis
