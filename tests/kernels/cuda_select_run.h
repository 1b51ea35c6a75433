// SPDX-License-Identifier: Apache-2.0
// A selection on the GPU as the tests run it: buffers between guards and full of garbage, and the index brought back.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kept_sets.h"
#include "kernels/cuda_resources.h"
#include "kernels/cuda_select.h"
#include "kernels/method.h"

namespace headscope::kernels::testing {

// Device memory between two guards, filled with garbage.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t bytes) : bytes_(bytes) {
    const Status status = AllocateOnDevice(static_cast<int64_t>(bytes + 2 * kGuard), "a test", &memory_);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(cudaMemset(memory_.get(), kGarbage, bytes + 2 * kGuard), cudaSuccess);
  }

  char* get() const { return static_cast<char*>(memory_.get()) + kGuard; }
  size_t bytes() const { return bytes_; }
  bool GuardsAreWhole() const {
    std::vector<unsigned char> guards(2 * kGuard);
    EXPECT_EQ(cudaMemcpy(guards.data(), memory_.get(), kGuard, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(guards.data() + kGuard, get() + bytes_, kGuard, cudaMemcpyDeviceToHost), cudaSuccess);
    return std::all_of(guards.begin(), guards.end(), [](unsigned char byte) { return byte == kGarbage; });
  }

 private:
  static constexpr size_t kGuard = 256;
  static constexpr unsigned char kGarbage = 0xa5;
  DeviceMemory memory_;
  size_t bytes_;
};

// A copy on the device of what one tensor's view spans.
class DeviceTensor {
 public:
  DeviceTensor(const StridedTensor<const void>& host, int32_t batch)
      : buffer_(static_cast<size_t>(host.batch_stride * batch) * 2), view_(host) {
    EXPECT_EQ(cudaMemcpy(buffer_.get(), host.data, buffer_.bytes(), cudaMemcpyHostToDevice), cudaSuccess);
    view_.data = buffer_.get();
  }
  const StridedTensor<const void>& view() const { return view_; }
  char* data() const { return buffer_.get(); }
  size_t bytes() const { return buffer_.bytes(); }

 private:
  DeviceBuffer buffer_;
  StridedTensor<const void> view_;
};

inline AttentionProblem OnDevice(const AttentionProblem& host, const DeviceTensor& q, const DeviceTensor& k) {
  AttentionProblem device = host;
  device.q = q.view();
  device.k = k.view();
  device.v = {};
  return device;
}

inline ParameterValues Values(const std::string& method, const std::string& text) {
  return Values(FindPrefillMethod(method)->spec(), text);
}

// The registered prefill methods that have a selector for GPUs, by name.
inline std::vector<std::string> WithCudaSelector() {
  std::vector<std::string> names;
  for (const PrefillMethod* method : PrefillMethods()) {
    if (FindCudaSelector(*method) != nullptr) names.push_back(method->spec().name);
  }
  return names;
}
inline const CudaSelector& SelectorOf(const std::string& method) {
  return *FindCudaSelector(*FindPrefillMethod(method));
}

// Parameters that a method's selector for GPUs takes: its defaults, or where it takes only another of a choice's names
// (the form of a paper or of published code), that one.
inline std::string TakenByCuda(const std::string& method) {
  const CudaSelector& selector = SelectorOf(method);
  AttentionProblem problem;
  problem.num_qo_heads = problem.num_kv_heads = 1;
  problem.head_dim = 64;
  problem.seq_q = problem.seq_k = 128;
  problem.dtype = DType::kBFloat16;
  problem.q = problem.k = {nullptr, 128 * 64, 128 * 64, 64};  // only the shape is looked at
  const auto takes = [&](const std::string& parameters) {
    CudaSelectSizes sizes;
    return SelectCudaBufferSizes(selector, problem, Values(method, parameters), &sizes).ok();
  };
  if (takes("")) return "";
  for (const ParameterSpec& parameter : selector.spec->parameters) {
    for (const std::string& choice : parameter.choices) {
      const std::string setting = parameter.name + "=" + choice;
      if (takes(setting)) return setting;
    }
  }
  ADD_FAILURE() << method << ": its selector for GPUs takes neither the defaults nor one other choice";
  return "";
}

// Selects on the GPU and brings the index back.
class GpuSelection {
 public:
  GpuSelection(const std::string& method, const AttentionProblem& problem, const ParameterValues& values)
      : sizes_(Sizes(method, problem, values)), index_(sizes_.index_bytes), workspace_(sizes_.workspace_bytes) {
    Run(method, problem, values, nullptr);
    Download();
  }

  void Run(const std::string& method, const AttentionProblem& problem, const ParameterValues& values, void* stream) {
    const CudaSelectBuffers buffers{index_.get(), index_.bytes(), workspace_.get(), workspace_.bytes()};
    const Status status = SelectCuda(SelectorOf(method), problem, values, buffers, &view_, stream);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  void Download() {
    const Status status = DownloadIndex(view_, &host_, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(index_.GuardsAreWhole());
    EXPECT_TRUE(workspace_.GuardsAreWhole());
  }
  void Forget() {
    EXPECT_EQ(cudaMemset(index_.get(), 0x5a, index_.bytes()), cudaSuccess);
    EXPECT_EQ(cudaMemset(workspace_.get(), 0x5a, workspace_.bytes()), cudaSuccess);
    host_ = {};
  }
  const SparseIndexView& view() const { return view_; }  // on the device
  const SparseIndex& host() const { return host_; }

 private:
  static CudaSelectSizes Sizes(const std::string& method, const AttentionProblem& problem,
                               const ParameterValues& values) {
    CudaSelectSizes sizes;
    const Status status = SelectCudaBufferSizes(SelectorOf(method), problem, values, &sizes);
    EXPECT_TRUE(status.ok()) << status.message();
    return sizes;
  }

  CudaSelectSizes sizes_;
  DeviceBuffer index_;
  DeviceBuffer workspace_;
  SparseIndexView view_;
  SparseIndex host_;
};

}  // namespace headscope::kernels::testing
