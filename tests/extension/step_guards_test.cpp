// SPDX-License-Identifier: Apache-2.0
// A launch knows one step. A method that chooses by the steps before, or by the attention that these had, gets no steps
// on a GPU, though its line names a maker that takes everything.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "guarded_lines.h"  // before the registry's list, which takes them up
#include "kernels/cuda_decode_step.h"
#include "methods/registry.h"

namespace headscope::kernels {
namespace {

class GuardedMethod final : public DecodeMethod {
 public:
  GuardedMethod(const char* name, bool needs_history, bool reads_output) {
    spec_.name = name;
    spec_.phase = Phase::kDecode;
    spec_.needs_history = needs_history;
    spec_.reads_output = reads_output;
  }
  const MethodSpec& spec() const override { return spec_; }

 private:
  MethodSpec spec_;
};

}  // namespace

const DecodeMethod& ChoosesByTheStep() {
  static const GuardedMethod method("by-the-step", false, false);
  return method;
}
const DecodeMethod& ChoosesByHistory() {
  static const GuardedMethod method("by-history", true, false);
  return method;
}
const DecodeMethod& ChoosesByOutput() {
  static const GuardedMethod method("by-output", false, true);
  return method;
}

Status fused::EagerSteps(Call* call) {
  call->steps.push_back(std::make_unique<CudaSelectionStep>(CudaSelection()));
  return {};
}

namespace {

// What is said instead of steps; "" where there are some.
std::string WhyNoSteps(const DecodeMethod& method) {
  EXPECT_NE(FindCudaStepMaker(method), nullptr);
  AttentionProblem problem;
  problem.num_qo_heads = problem.num_kv_heads = 1;
  problem.head_dim = 64;
  problem.seq_k = 100;
  problem.first_position = 99;
  std::vector<std::unique_ptr<CudaDecodeStep>> steps;
  const Status status = PlanCudaDecodeSteps(method, ParameterValues(method.spec()), problem, IfSlower::kChoose, &steps);
  EXPECT_EQ(steps.empty(), !status.ok());
  EXPECT_TRUE(status.ok() || status.code() == StatusCode::kUnsupported);
  return status.message();
}

TEST(StepGuards, AMethodThatLooksBackGetsNoSteps) {
  EXPECT_EQ(WhyNoSteps(ChoosesByTheStep()), "");
  EXPECT_EQ(WhyNoSteps(ChoosesByHistory()), "it chooses by the steps before as well");
  EXPECT_EQ(WhyNoSteps(ChoosesByOutput()), "it learns from each step's output");
}

}  // namespace
}  // namespace headscope::kernels
