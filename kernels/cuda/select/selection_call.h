// SPDX-License-Identifier: Apache-2.0
// One call of SelectCuda as its methods see it: the problem, two arenas to take device memory from, and the view to
// fill. A call is walked twice by the same code: once without memory, which adds up the sizes, and once with memory,
// which launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <numbers>
#include <string>

#include "kernels/attention_problem.h"
#include "kernels/cuda_resources.h"
#include "kernels/method_spec.h"
#include "kernels/sparse_index.h"
#include "methods/registry.h"
#include "problem_check.h"
#include "select/lists.h"

namespace headscope::kernels::selection {

// Hands out pieces of one allocation, each aligned to 16 bytes; with a null base it only counts.
class Arena {
 public:
  explicit Arena(void* base) : base_(static_cast<char*>(base)) {}

  template <typename T>
  T* Take(int64_t count) {
    const size_t at = used_;
    used_ += (static_cast<size_t>(count) * sizeof(T) + 15) / 16 * 16;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + at);
  }
  size_t used() const { return used_; }

 private:
  char* const base_;
  size_t used_ = 0;
};

struct Call {
  const AttentionProblem& problem;
  const ParameterValues& values;
  Arena index;
  Arena workspace;
  SparseIndexView view = {};
  cudaStream_t stream = nullptr;
  bool launches = false;  // false: sizes only

  int32_t NumVisibleKeys() const { return problem.first_position + problem.seq_q; }
  int64_t NumHeads() const { return int64_t{problem.batch} * problem.num_qo_heads; }
};

// Takes the index's arrays, `num_slots` slots of the given capacities, and fills the view.
ListArrays TakeLists(Call* call, int64_t num_slots, int64_t run_capacity, int64_t column_capacity);
ListShape ShapeOfLists(const Call& call);

inline Status LaunchStatus(cudaError_t error, const char* kernel, const Call& call) {
  return CudaStatus(error, std::string(kernel) + " (" + Describe(call.problem) + ")");
}

// What the parameters of every kernel that reads Q and K say of them.
template <class Params>
void SetTensors(const Call& call, Params* params) {
  params->q = call.problem.q;
  params->k = call.problem.k;
  params->num_qo_heads = call.problem.num_qo_heads;
  params->num_kv_heads = call.problem.num_kv_heads;
  params->head_dim = call.problem.head_dim;
  params->seq_q = call.problem.seq_q;
  params->first_position = call.problem.first_position;
}
// Factor and cap of scores in base 2.
template <class Params>
void SetScale(const AttentionProblem& problem, float scale, Params* params) {
  constexpr float kLog2E = std::numbers::log2e_v<float>;
  params->score_scale = problem.soft_cap > 0 ? scale / problem.soft_cap : scale * kLog2E;
  params->cap = problem.soft_cap * kLog2E;
}

// A method's selector is a function Status(Call*) that kernels/methods/registry.h names beside the method and declares.
// The problem and the values have been checked.

}  // namespace headscope::kernels::selection
