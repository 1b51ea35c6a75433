// SPDX-License-Identifier: Apache-2.0
// A decode step on the GPU, whatever chose its tokens: what compares, runs and times methods there, and a model that
// runs there, take this one call. A method whose choice a kernel makes has steps that choose and attend in one chain of
// launches, where they take the problem (PlanCudaDecodeSteps). Every other choice is the caller's, on the CPU, and is
// attended by a CudaSelectionStep.
//
// A new step is a file under kernels/cuda/decode that derives from CudaDecodeStep and defines the maker that the method
// names on its line of kernels/methods/registry.h.
//
// Errors: as those of kernels/cuda_decode.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention_problem.h"
#include "kernels/cuda_decode_selection.h"
#include "kernels/decode_method.h"
#include "kernels/method_spec.h"
#include "kernels/status.h"

namespace headscope::kernels {

// What a step reads beside K and V: memory of the GPU, aligned to 256 bytes, of CudaDecodeStep::KeptBytes().
struct CudaKept {
  void* memory = nullptr;
  int32_t capacity = 0;  // tokens that it has room for
};

// Looks at no tensor but in Update() and Run(). It is for problems of the length that it was planned for: how many
// tokens it chooses may go by that, so another length takes a step of its own, over what the one before kept.
class CudaDecodeStep {
 public:
  virtual ~CudaDecodeStep() = default;

  // What it chooses in each list (a KV head of a sequence).
  struct Choice {
    int32_t pages = 0;  // 0: it chooses nothing
    int32_t page_size = 1;
    bool keeps_newest = false;  // the newest token's page is always among them
  };
  virtual Choice ChoiceOf(const AttentionProblem& /*problem*/) const { return {}; }
  // false: output.lse stays as it is.
  virtual bool WritesLse() const { return true; }

  // Of what it keeps beside a cache of as many tokens; 0: nothing.
  virtual int64_t KeptBytes(const AttentionProblem& /*problem*/, int32_t /*capacity*/) const { return 0; }
  // Brings that up to the problem's tokens. first_token: as many as it was brought up to before, and these have not
  // changed; 0: it is made anew, whatever is there.
  virtual Status Update(const AttentionProblem& /*problem*/, int32_t /*first_token*/, const CudaKept& /*kept*/,
                        void* /*stream*/) const {
    return {};
  }

  // Bytes of scratch memory on the current GPU, aligned to 256 bytes. All zeros before the first call; a step leaves it
  // ready for steps of its own kind and numbers of heads.
  virtual size_t WorkspaceBytes(const AttentionProblem& problem) const = 0;
  // The step, over what Update() has brought up to the problem's tokens. chosen: int32 [batch, num_kv_heads, pages],
  // ascending, or null; a step that chooses nothing writes nothing there, and one that yields to dense refuses it.
  virtual Status Run(const AttentionProblem& problem, const CudaKept& kept, const AttentionOutput& output,
                     int32_t* chosen, void* workspace, size_t workspace_bytes, void* stream) const = 0;

  // Whether Run() attends to every token instead, where that is faster, and chooses nothing (IfSlower).
  virtual bool YieldsToDense(const AttentionProblem& /*problem*/) const { return false; }
  // What tells it from its method's other steps, as a benchmark shows it.
  virtual std::string Variant() const { return {}; }
  // What it has to move at least (kernels/step_elements.h) where it does not yield; and Update(), in bytes of all
  // lists, read and written.
  virtual int64_t ElementsMoved(const AttentionProblem& /*problem*/) const { return 0; }
  virtual int64_t UpdateBytes(const AttentionProblem& /*problem*/, int32_t /*first_token*/) const { return 0; }
};

// Attends a selection of the caller's, by AttendSelectionCuda: what it needs is known to the caller, and it keeps and
// chooses nothing. Dense decode is the selection of everything; its scratch memory is not another selection's.
class CudaSelectionStep final : public CudaDecodeStep {
 public:
  explicit CudaSelectionStep(const CudaSelection& selection) : selection_(selection) {}
  size_t WorkspaceBytes(const AttentionProblem& problem) const override {
    return SelectionWorkspaceBytes(problem, selection_);
  }
  Status Run(const AttentionProblem& problem, const CudaKept& /*kept*/, const AttentionOutput& output,
             int32_t* /*chosen*/, void* workspace, size_t workspace_bytes, void* stream) const override {
    return AttendSelectionCuda(problem, selection_, output, workspace, workspace_bytes, stream);
  }

 private:
  const CudaSelection selection_;
};

// What becomes of a step that would take longer than the dense one.
enum class IfSlower : uint8_t {
  kChoose,  // it chooses all the same: where it matters what a method keeps
  kYield    // it attends to every token, by DecodeDenseCuda: where the time matters
};

namespace fused {

// Steps that are asked for, and made: the first is the one to run, any others are ways to run it that a benchmark
// shows beside it.
struct Call {
  const DecodeMethod& method;
  const ParameterValues& values;
  const AttentionProblem& problem;
  IfSlower if_slower = IfSlower::kChoose;
  std::vector<std::unique_ptr<CudaDecodeStep>> steps = {};
};

}  // namespace fused

// A method's maker of steps, as the registry has it: kUnsupported and other errors say what of the problem or the
// values it does not take. Null where the method has none, and of every method in a build without CUDA.
using CudaStepMaker = Status (*)(fused::Call* call);
CudaStepMaker FindCudaStepMaker(const DecodeMethod& method);

// The steps of a method for a problem of this shape on the current GPU. An error, of whatever code, says why the CPU
// has to select, in a clause that goes on from "METHOD selects on the CPU: ".
inline Status PlanCudaDecodeSteps(const DecodeMethod& method, const ParameterValues& values,
                                  const AttentionProblem& problem, IfSlower if_slower,
                                  std::vector<std::unique_ptr<CudaDecodeStep>>* steps) {
  if (method.IsDenseLayer(values, problem.layer)) return {StatusCode::kUnsupported, "it leaves this layer dense"};
  const CudaStepMaker maker = FindCudaStepMaker(method);
  if (maker == nullptr) return {StatusCode::kUnsupported, "it has no GPU kernel"};
  // Launches know one step, and not all that choose leave what such a method learns from.
  if (method.spec().reads_output) return {StatusCode::kUnsupported, "it learns from each step's output"};
  if (method.NeedsHistory(values)) return {StatusCode::kUnsupported, "it chooses by the steps before as well"};
  fused::Call call{method, values, problem, if_slower};
  if (Status status = maker(&call); !status.ok()) return status;
  *steps = std::move(call.steps);
  return {};
}

// The step to run, of these.
inline Status PlanCudaDecodeStep(const DecodeMethod& method, const ParameterValues& values,
                                 const AttentionProblem& problem, std::unique_ptr<CudaDecodeStep>* step) {
  std::vector<std::unique_ptr<CudaDecodeStep>> steps;
  Status status = PlanCudaDecodeSteps(method, values, problem, IfSlower::kChoose, &steps);
  if (status.ok()) *step = std::move(steps.front());
  return status;
}

}  // namespace headscope::kernels
