// SPDX-License-Identifier: Apache-2.0
// How a dense decode call is cut into passes, steps and shares of blocks.
#pragma once

#include <cstddef>

#include "decode/decode_params.h"
#include "kernels/attention_problem.h"
#include "kernels/status.h"

namespace headscope::kernels::decode {

// So many bytes of K and V, at most, are read as the first to leave L2. What other kernels wrote there then stays and
// is not written back beside the reads: up to 10 % less time. Longer streams find too little room in what they leave
// each other, and lose 3 to 4 % (H200).
constexpr int64_t kCacheFriendlyBytes = int64_t{256} << 20;

struct DecodeDevice {
  int num_multiprocessors = 132;
  bool bulk_copies = true;                    // compute capability 9.0 or newer
  int shared_of_block = 227 * 1024;           // bytes that one block may take
  int shared_of_multiprocessor = 228 * 1024;  // bytes that the resident blocks share
};
// The current GPU; not ok without one of compute capability 8.0 or newer.
Status FindDecodeDevice(DecodeDevice* device);

// The counters that begin the workspace, in dense decode and SparQ alike: one for each query head and one more, zero
// between calls.
size_t CounterBytes(const AttentionProblem& problem);
// The counters and, behind them, room for what blocks send each other (message.cuh), zero between calls as well and of
// a size that does not depend on the sequence's length. What SparQ leaves in the workspace otherwise lies behind both.
size_t ZeroedBytes(const AttentionProblem& problem, const DecodeDevice& device);

struct DensePlan {
  DenseParams params;      // shapes alone: no pointers, strides or scales
  size_t messages, total;  // scratch: where the messages begin, and its size
};
// Not ok for more steps than a kernel counts.
Status PlanDense(const AttentionProblem& problem, const DecodeDevice& device, DensePlan* plan);

}  // namespace headscope::kernels::decode
