// SPDX-License-Identifier: Apache-2.0
// What a decode step keeps beside one cache (kernels/cuda_decode_step.h), from step to step: memory of its own, and up
// to which token it is. For sources that see CUDA's headers.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/cuda_decode_step.h"
#include "kernels/cuda_resources.h"

namespace headscope::kernels {

class CudaKeptState {
 public:
  // The tokens have changed: the next call makes all of it anew.
  void Forget() { num_tokens_ = 0; }

  // Brings it up to the problem's tokens: those behind the ones that it was brought up to before or, where the cache
  // lies elsewhere, the step keeps something of another size, or the tokens have become fewer, all of them. Steps that
  // keep different things of one size and one cache take a Forget() between them. capacity: tokens that will come at
  // most, as far as the caller knows. `what` names the memory in an error.
  Status BringUpTo(const CudaDecodeStep& step, const AttentionProblem& problem, int32_t capacity,
                   const std::string& what, void* stream) {
    const int64_t bytes = step.KeptBytes(problem, capacity);
    const bool goes_on =
        keys_ == problem.k.data && kept_.capacity == capacity && bytes_ == bytes && num_tokens_ <= problem.seq_k;
    const int32_t first = goes_on ? num_tokens_ : 0;
    if (first == problem.seq_k) return {};
    num_tokens_ = 0;  // until it is done
    if (first == 0) {
      if (Status status = bytes > 0 ? memory_.Reserve(static_cast<size_t>(bytes), what) : Status(); !status.ok())
        return status;
      kept_ = {memory_.memory.get(), capacity};
      keys_ = problem.k.data;
      bytes_ = bytes;
    }
    Status status = step.Update(problem, first, kept_, stream);
    if (status.ok()) num_tokens_ = problem.seq_k;
    return status;
  }

  const CudaKept& kept() const { return kept_; }

 private:
  GrowingDeviceMemory memory_;
  CudaKept kept_;
  const void* keys_ = nullptr;
  int64_t bytes_ = 0;
  int32_t num_tokens_ = 0;
};

}  // namespace headscope::kernels
