// SPDX-License-Identifier: Apache-2.0
// The measured heads in the GPU's memory, and room for an output of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analysis/measured_heads.h"
#include "base/device.h"
#include "compare/sixteen_bits.h"
#include "kernels/attention_problem.h"
#include "kernels/cuda_resources.h"
#include "kernels/status.h"

namespace headscope::analysis {

class GpuHeads {
 public:
  // Errors: kDeviceMissing; kOutOfMemory.
  static kernels::Status Create(MeasuredHeadsPtr heads, std::unique_ptr<GpuHeads>* made);

  const MeasuredHeads& heads() const { return *heads_; }
  const NamedDevice& device() const { return device_; }
  // Whether the GPU computes with the heads' own numbers; they are rounded to bf16 otherwise.
  bool exact() const { return narrow_.exact; }
  // The whole problem in 16 bits, in host and in GPU memory.
  kernels::AttentionProblem host_problem() const { return narrow_.Of(heads_->Problem()); }
  const kernels::AttentionProblem& problem() const { return problem_; }
  // Of all recorded rows, [num_qo_heads, num_rows, v_head_dim] in the problem's format; and in the same memory of one
  // step, [num_qo_heads, 1, v_head_dim].
  const kernels::AttentionOutput& output() const { return output_; }
  const kernels::AttentionOutput& step_output() const { return step_output_; }

  // Fills the output with NaN, so that what a kernel leaves out is seen.
  kernels::Status PoisonOutput();
  // `vectors` vectors of v_head_dim elements of the output's memory from number `first` on, as fp32.
  kernels::Status ReadOutput(int64_t first, int64_t vectors, std::vector<float>* o) const;

 private:
  GpuHeads() = default;
  int64_t OutputBytes() const;

  MeasuredHeadsPtr heads_;
  NamedDevice device_;
  SixteenBits narrow_;
  kernels::DeviceMemory q_, k_, v_, o_;
  kernels::AttentionProblem problem_;
  kernels::AttentionOutput output_, step_output_;
};

}  // namespace headscope::analysis
