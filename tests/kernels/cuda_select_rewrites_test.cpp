// SPDX-License-Identifier: Apache-2.0
// Select and attend over and over on one stream, nobody waiting in between: launches overlap at their ends, and what
// one call reads the next one writes. Every result is that of the same calls with a wait behind each. Skipped without a
// GPU.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cuda_select_run.h"
#include "device_array.h"
#include "kernels/cuda_executor.h"
#include "random_problem.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using testing::DeviceArray;
using testing::DeviceTensor;
using testing::GpuSelection;
using testing::OnDevice;
using testing::RandomProblem;
using testing::SelectorOf;
using testing::Values;
using testing::WithCudaSelector;

constexpr size_t kProblems = 2;
constexpr size_t kRounds = 12;
// Long enough that a call's kernels take longer than it takes to launch the next call's.
const test::ProblemShape kShape{1, 4, 2, 128, 3000, 3000, 0, DType::kBFloat16};

// Q, K and V of one problem on the GPU, each in memory of its own.
struct DeviceProblem {
  explicit DeviceProblem(const RandomProblem& host)
      : q(host.q.View(), host.shape.batch), k(host.k.View(), host.shape.batch), v(host.v.View(), host.shape.batch) {
    problem = OnDevice(host.View(), q, k);
    problem.v = v.view();
  }
  // Overwrites this problem's numbers with those of another of its shape, in the order of the stream.
  void TakeFrom(const DeviceProblem& other, cudaStream_t stream) {
    for (const auto& [to, from] : {std::pair{&q, &other.q}, std::pair{&k, &other.k}, std::pair{&v, &other.v}}) {
      ASSERT_EQ(cudaMemcpyAsync(to->data(), from->data(), to->bytes(), cudaMemcpyDeviceToDevice, stream), cudaSuccess);
    }
  }

  DeviceTensor q;
  DeviceTensor k;
  DeviceTensor v;
  AttentionProblem problem;
};

struct Results {
  std::vector<uint16_t> o;
  std::vector<float> lse;

  bool operator==(const Results&) const = default;
};

// One round's outputs, which no other round writes.
class Outputs {
 public:
  Outputs() : o_(NumRows() * kShape.head_dim), lse_(NumRows()) {}
  AttentionOutput View() const {
    const int64_t head = int64_t{kShape.seq_q} * kShape.head_dim;
    AttentionOutput output;
    output.o = {o_.get(), head * kShape.num_qo_heads, head, kShape.head_dim};
    output.lse = lse_.get();
    return output;
  }
  Results Download() const { return {o_.Download(), lse_.Download()}; }

 private:
  static int64_t NumRows() { return int64_t{kShape.num_qo_heads} * kShape.seq_q; }

  DeviceArray<uint16_t> o_;
  DeviceArray<float> lse_;
};

// Picks that leave most of these problems out; the defaults of a method that is not listed.
std::string SmallParameters(const std::string& method) {
  const std::map<std::string, std::string> small = {
      {"vertical-slash", "n_vertical=50,n_slash=20"},  {"block-sparse", "n_blocks=5"},
      {"sample-attention", "alpha_c=0.3,alpha_s=0.3"}, {"x-attention", "tau=0.3"},
      {"sparge-attn", "rule=top_k,tau=0.3"},           {"flex-prefill", "gamma=0.3,tau=1,min_budget=0,form=code"}};
  const auto found = small.find(method);
  return found == small.end() ? "" : found->second;
}

// Static methods make the same index of every problem of a shape.
std::vector<std::string> DynamicMethods() {
  std::vector<std::string> names = WithCudaSelector();
  std::erase_if(names, [](const std::string& name) { return SelectorOf(name).spec->IsStatic(); });
  return names;
}

class CudaSelectAndAttend : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    std::mt19937 random(23);
    for (size_t i = 0; i < kProblems; ++i) {
      problems_.push_back(std::make_unique<DeviceProblem>(RandomProblem(kShape, &random)));
      const GpuSelection selection(method_, problems_.back()->problem, values_);
      const Outputs outputs;
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      Attend(problems_.back()->problem, selection, outputs);
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      expected_.push_back(outputs.Download());
    }
    ASSERT_FALSE(expected_[0] == expected_[1]);
  }
  void TearDown() override {
    if (stream_ == nullptr) return;
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }

  void Attend(const AttentionProblem& problem, const GpuSelection& selection, const Outputs& outputs) {
    const Status status = AttendCuda(problem, selection.view(), outputs.View(), stream_);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  void ExpectWhatCallsGiveAlone(const std::vector<Outputs>& outputs) {
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    for (size_t round = 0; round < outputs.size(); ++round) {
      EXPECT_TRUE(outputs[round].Download() == expected_[round % kProblems]) << "round " << round;
    }
  }

  const std::string method_ = GetParam();
  const ParameterValues values_ = Values(method_, SmallParameters(method_));
  cudaStream_t stream_ = nullptr;
  std::vector<std::unique_ptr<DeviceProblem>> problems_;
  std::vector<Results> expected_;
};

// A call's index lies where the executor of the call before may still read the one before.
TEST_P(CudaSelectAndAttend, WriteEachIndexOverTheOneBefore) {
  GpuSelection selection(method_, problems_[0]->problem, values_);
  const std::vector<Outputs> outputs(kRounds);
  for (size_t round = 0; round < outputs.size(); ++round) {
    const AttentionProblem& problem = problems_[round % kProblems]->problem;
    selection.Run(method_, problem, values_, stream_);
    Attend(problem, selection, outputs[round]);
  }
  ExpectWhatCallsGiveAlone(outputs);
}

// The tensors are overwritten, too, as a model's next layer does it.
TEST_P(CudaSelectAndAttend, WriteTensorsOverThoseOfTheCallBefore) {
  GpuSelection selection(method_, problems_[0]->problem, values_);
  std::mt19937 random(29);
  DeviceProblem shared{RandomProblem(kShape, &random)};
  const std::vector<Outputs> outputs(kRounds);
  for (size_t round = 0; round < outputs.size(); ++round) {
    shared.TakeFrom(*problems_[round % kProblems], stream_);
    selection.Run(method_, shared.problem, values_, stream_);
    Attend(shared.problem, selection, outputs[round]);
  }
  ExpectWhatCallsGiveAlone(outputs);
}

INSTANTIATE_TEST_SUITE_P(Methods, CudaSelectAndAttend, ::testing::ValuesIn(DynamicMethods()),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace headscope::kernels
