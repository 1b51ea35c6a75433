// SPDX-License-Identifier: Apache-2.0
// How the persistent kernels get their work items: dealt, where there are few, else in a queue that is ordered first.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>

#include "current_device.h"
#include "hopper/kernel_params.h"
#include "kernels/attention_problem.h"
#include "kernels/status.h"

namespace headscope::kernels::hopper {

// Fills what `params` has of items, lists and heads.
void CountItems(const AttentionProblem& problem, const SparseIndexView& index, KernelParams* params);

// Whether the dense kernels take an index whose heads all keep everything: under a causal rule, with a row for every
// key that would keep it.
bool TakesDenseKernels(const SparseIndexView& index);

// Whether it is worth asking the device if they do: lists that are asked for, and as many runs as that takes.
bool MayKeepEverything(const SparseIndexView& index);

// Makes the queue that `params` asks for, if any, calls launch(num_blocks), whose kernel reads it, and frees it behind
// that, all in the stream's order. bytes_per_kv_head: of K and V. `what`: the kernel, for messages. find_dense: the
// queue also says where every head keeps everything (params->dense_sections).
Status LaunchWithQueue(const AttentionProblem& problem, const SparseIndexView& index, int64_t bytes_per_kv_head,
                       const CurrentDevice& device, const std::string& what, cudaStream_t stream, KernelParams* params,
                       const std::function<cudaError_t(int)>& launch, bool find_dense = false);

// The same for a dense kernel where the host knows that every head keeps everything: nothing has to be ordered, and
// few items are dealt. item_rows: of the kernel's items.
Status LaunchOnEverything(const AttentionProblem& problem, int32_t item_rows, int64_t bytes_per_kv_head,
                          const CurrentDevice& device, const std::string& what, cudaStream_t stream,
                          KernelParams* params, const std::function<cudaError_t(int)>& launch);

}  // namespace headscope::kernels::hopper
