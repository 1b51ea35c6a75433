// SPDX-License-Identifier: Apache-2.0
// Definition of LaunchSparq (decode_launch.h); included by each of its translation units.
#pragma once

#include "decode/decode_launch.cuh"
#include "decode/decode_launch.h"
#include "decode/sparq_kernels.cuh"
#include "decode/sparq_stream_kernel.cuh"

namespace headscope::kernels::decode {

template <typename T, int D>
cudaError_t LaunchSparq(const SparqParams& params, cudaStream_t stream) {
  const SparqPlan& plan = params.plan;
  const bool together = plan.waits != 0 || (SendsCandidates(plan.path) && plan.num_spans > 1);
  const auto launch = [&](void (*kernel)(SparqParams), int threads) {
    return Launch(kernel, params, plan.blocks, threads, plan.shared_bytes, together, stream);
  };
  switch (plan.path) {
    case SparqPath::kOneHead:
      return launch(SparqStreamKernel<T, D, SparqPath::kOneHead>, StreamThreads(plan.path));
    case SparqPath::kOneItem:
      return launch(SparqStreamKernel<T, D, SparqPath::kOneItem>, StreamThreads(plan.path));
    case SparqPath::kFewHeads:
      return launch(SparqKernel<T, D, SparqPath::kFewHeads>, kSparqThreads);
    case SparqPath::kManyHeads:
      return launch(SparqKernel<T, D, SparqPath::kManyHeads>, kSparqThreads);
  }
  return cudaErrorInvalidValue;
}

}  // namespace headscope::kernels::decode
