// SPDX-License-Identifier: Apache-2.0
// Where a model's tensors lie, and how methods select and attend there: the host's memory and the CPU's executors, or a
// GPU's and CUDA's.
#pragma once

#include <memory>
#include <string>

#include "kernels/attention_problem.h"
#include "kernels/decode_method.h"
#include "kernels/decode_selection.h"
#include "kernels/method.h"
#include "kernels/run_options.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"
#include "model/attention_backend.h"

namespace headscope::sparse_model {

// The layer's facts and the call's tensors, wherever they lie.
kernels::AttentionProblem ProblemOf(const model::AttentionCall& call);

class ModelDevice {
 public:
  virtual ~ModelDevice() = default;

  // Before the other calls of a layer's pass. Errors: no such GPU, or a build without CUDA.
  virtual kernels::Status Begin(const model::AttentionCall& call) = 0;
  // The model has forgotten its tokens from `num_tokens` on, or all that came before is of another sequence: 0.
  virtual void Rewind(int64_t /*num_tokens*/) {}
  // The problem of the call in host memory. K and V lie where they are until the model's cache moves; Q until the next
  // call.
  virtual kernels::Status OnHost(const model::AttentionCall& call, kernels::AttentionProblem* host) = 0;
  // Selects and attends into the call's o and lse. *index: on the host; of the baseline, which keeps everything,
  // a GPU may leave it as it is and not be done yet. *note: why selection did not run where attention did; else
  // unchanged.
  virtual kernels::Status Prefill(const model::AttentionCall& call, const kernels::PrefillMethod& method,
                                  const kernels::ParameterValues& values, kernels::SparseIndex* index,
                                  std::string* note) = 0;
  // Dense attention into the call's o and lse where an executor here is faster than LibTorch's; *attended: whether it
  // is, and nothing is done where it is not, nor in a build without CUDA. Begins the pass itself, on one GPU for
  // all calls of a device. A GPU need not be done yet.
  virtual kernels::Status DenseIfFaster(const model::AttentionCall& /*call*/, bool* attended) {
    *attended = false;
    return {};
  }
  // What became of a step that a method may choose for where the model runs.
  struct ChoosingStep {
    bool made = false;
    int64_t num_kept = 0;  // where it was made: tokens of all KV heads
    // Where it was not: why the method selects elsewhere, in a clause; empty where it selects on the model's device all
    // the same.
    std::string why_not;
  };
  // Makes the step into the call's o, and lse where it says so, if kernels here choose as the method does.
  // `first_token` of the call's tokens is the first that the method sees. wants_lse: the call's lse has to be made.
  virtual kernels::Status DecodeByMethod(const model::AttentionCall& /*call*/, int32_t /*first_token*/,
                                         const kernels::DecodeMethod& /*method*/,
                                         const kernels::ParameterValues& /*values*/, bool /*wants_lse*/,
                                         ChoosingStep* step) {
    *step = {};
    return {};
  }
  // Attends a step's selection into the call's o and lse. `first_token` of the call's tokens is the selection's token
  // 0.
  virtual kernels::Status Decode(const model::AttentionCall& call, int32_t first_token,
                                 const kernels::DecodeSelection& selection) = 0;
  // Puts the log-sum-exp of every key that the layer lets a row see into the call's lse.
  virtual kernels::Status WholeLse(const model::AttentionCall& call) = 0;
  // What the last Prefill() or Decode() made, on the host, o in fp32 [num_qo_heads, num_rows, v_head_dim]; valid until
  // the next call.
  virtual kernels::Status Output(const model::AttentionCall& call, kernels::AttentionOutput* output) = 0;
};

std::unique_ptr<ModelDevice> MakeHostDevice(const kernels::RunOptions& options);
// A build without CUDA makes one whose Begin() refuses.
std::unique_ptr<ModelDevice> MakeGpuDevice(const kernels::RunOptions& options);

// The step's problem: those of the call's tokens that `first` and the later ones are, and no window.
kernels::AttentionProblem StepFrom(kernels::AttentionProblem whole, int32_t first);
// First token of a problem that its row sees, as the layer's window says.
int32_t SeenFrom(const kernels::AttentionProblem& problem, int64_t row);

}  // namespace headscope::sparse_model
