// SPDX-License-Identifier: Apache-2.0
// The selection of one decode step on the host, as the benchmark times it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/bench_device.h"
#include "kernels/decode_driver.h"

namespace headscope::app::bench {

// `problem` is the step of `placed`, in host memory; it stands for a generation whose prompt is all of its tokens but
// the newest. The prompt's queries are placed.prompt_queries': as many of the last ones as the method asks for. What a
// method asks for beside them is made of the problem: queries before RoPE are its own turned back, norms of W_o v those
// of V. One that takes what a lower layer chose is timed in a layer that does; the layer that chooses has the same
// problem.
class HostDecodeStep {
 public:
  // Begins the generation and moves on to the step. What is passed by reference outlives this. Throws as CheckStatus
  // (base/check_status.h), and as placed.prompt_queries.
  HostDecodeStep(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                 const PlacedProblem& placed, const kernels::AttentionProblem& problem,
                 const kernels::RunOptions& options);

  // Whether Prepare() is to be called before every Select(): the step changes what the next one would choose.
  bool NeedsPreparing() const { return !driver_.AnyOrder(); }
  void Prepare();
  const kernels::DecodeSelection& Select();
  // Whether the method chooses from the prompt, or makes there what its steps choose by; and what does it, once a
  // generation. The step is to be prepared anew behind it.
  bool ChoosesFromPrompt() const { return chooses_from_prompt_; }
  void ChooseFromPrompt();
  const kernels::DecodeSelection& selection() const { return selection_; }
  // What is to be said of the row beside the method's name; may be empty.
  std::string Variant() const { return lower_layers_.empty() ? "" : "in a layer that reuses"; }

 private:
  kernels::Status Begin(int32_t query_rows);

  const PlacedProblem& placed_;
  kernels::DecodeStep step_;
  const kernels::RunOptions options_;
  const kernels::DecodeMethod::PromptInputs inputs_;
  bool chooses_from_prompt_ = false;
  kernels::DecodeDriver driver_;
  int32_t layer_ = 0;
  std::vector<std::unique_ptr<kernels::DecodeSelection>> chosen_below_;
  std::vector<const kernels::DecodeSelection*> lower_layers_;
  std::vector<char> queries_, before_rope_;  // of the prompt's last rows
  std::vector<float> value_norms_;
  int32_t query_rows_ = 0;
  kernels::DecodeSelection selection_;
};

}  // namespace headscope::app::bench
