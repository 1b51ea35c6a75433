// One head in the GPU's memory, and room for an output of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analysis/head_tensors.h"
#include "compare/gpu_memory.h"
#include "compare/sixteen_bit_head.h"
#include "kernels/attention_problem.h"
#include "kernels/status.h"

namespace headscope::analysis {

class GpuHead {
 public:
  // Errors: kDeviceMissing; kOutOfMemory.
  static kernels::Status Create(HeadTensorsPtr head, std::unique_ptr<GpuHead>* made);

  const HeadTensors& head() const { return *head_; }
  const std::string& gpu_name() const { return gpu_name_; }
  // Whether the GPU computes with the head's own numbers; they are rounded to bf16 otherwise.
  bool exact() const { return narrow_.exact; }
  // The head's whole problem in 16 bits, in host and in GPU memory.
  kernels::AttentionProblem host_problem() const { return narrow_.Problem(*head_); }
  const kernels::AttentionProblem& problem() const { return problem_; }
  // [num_rows, head_dim] in the problem's format.
  const kernels::AttentionOutput& output() const { return output_; }

  // Fills the output with NaN, so that what a kernel leaves out is seen.
  kernels::Status PoisonOutput();
  // The first `rows` rows of the output as fp32.
  kernels::Status ReadOutput(int64_t rows, std::vector<float>* o) const;

 private:
  GpuHead() = default;

  HeadTensorsPtr head_;
  std::string gpu_name_;
  SixteenBitHead narrow_;
  GpuMemory q_, k_, v_, o_;
  kernels::AttentionProblem problem_;
  kernels::AttentionOutput output_;
};

}  // namespace headscope::analysis
