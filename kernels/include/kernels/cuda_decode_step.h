// SPDX-License-Identifier: Apache-2.0
// A method's decode steps on the GPU, by one call whatever the method: what compares, runs and times methods there
// takes this one. A method whose choice a kernel makes (DecodeMethod::FusedStep, FusedPages) chooses and attends in one
// chain of launches, where that takes the problem; every other choice is the caller's, on the CPU, and is attended
// here.
//
// Errors: as those of kernels/cuda_decode.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/attention_problem.h"
#include "kernels/cuda_decode.h"
#include "kernels/cuda_decode_selection.h"
#include "kernels/cuda_quest.h"
#include "kernels/decode_method.h"
#include "kernels/method_spec.h"
#include "kernels/status.h"

namespace headscope::kernels {

// What a step reads besides the problem, by its way; all on the GPU.
struct CudaDecodeInputs {
  const CudaSelection* selection = nullptr;  // kSelection; itself in host memory
  TransposedKeys transposed = {};            // kTopTokens; may be empty
  const float* mean_value = nullptr;         // kTopTokens, where top_tokens().mean_value
  CudaPageBounds bounds = {};                // kPages
};

class CudaDecodeStep {
 public:
  enum class Way : uint8_t {
    kSelection,  // a selection of the caller's: AttendSelectionCuda, and with it dense decode
    kTopTokens,  // by estimated scores: DecodeSparqCuda
    kPages       // by the bounds of pages: DecodeQuestCuda
  };

  // What becomes of a step of kTopTokens that would take longer than the dense one.
  enum class IfSlower : uint8_t {
    kChoose,  // it chooses all the same: where it matters what a method keeps
    kYield    // it attends to every token, by DecodeDenseCuda: where the time matters
  };

  // Attends selections.
  CudaDecodeStep() = default;
  // A step of a method on the current GPU; looks at no tensor. A method that learns from its output selects on the CPU,
  // because not all launches that choose leave what it learns from.
  CudaDecodeStep(const DecodeMethod& method, const ParameterValues& values, const AttentionProblem& problem,
                 IfSlower if_slower = IfSlower::kChoose);

  Way way() const { return way_; }
  // Of kSelection: why no launch chooses, for the place behind "selects on the CPU: ".
  const std::string& reason() const { return reason_; }
  const EstimatedTopTokens& top_tokens() const { return top_tokens_; }  // of kTopTokens
  const PagesByBounds& pages() const { return pages_; }                 // of kPages

  // Whether a step of kTopTokens yields to the dense one, below a floor that was measured on an H200
  // (docs/kernels/decode.md); whole_rows: without the component-major copy of K. Run does so; nothing is chosen then.
  bool YieldsToDense(const AttentionProblem& problem, bool whole_rows) const;

  // Tokens or pages that a launch chooses for each KV head; 0 for kSelection.
  int32_t NumChosen(const AttentionProblem& problem) const;

  // Bytes of scratch memory on the current GPU, aligned to 256 bytes. All zeros before the first call: kTopTokens and a
  // dense selection want that, and leave it so for steps of their own; kPages and other selections leave anything.
  size_t WorkspaceBytes(const AttentionProblem& problem, const CudaSelection& selection = {}) const;

  // The step. output.lse: kTopTokens leaves it as it is. chosen: int32 [batch, num_kv_heads, NumChosen], ascending, or
  // null; nothing is written there by kSelection. A step that yields to dense refuses an array there.
  Status Run(const AttentionProblem& problem, const CudaDecodeInputs& inputs, const AttentionOutput& output,
             int32_t* chosen, void* workspace, size_t workspace_bytes, void* stream) const;

 private:
  Way way_ = Way::kSelection;
  IfSlower if_slower_ = IfSlower::kChoose;
  std::string reason_ = "its lists are given";
  EstimatedTopTokens top_tokens_;
  PagesByBounds pages_;
};

}  // namespace headscope::kernels
