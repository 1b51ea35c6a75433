// SPDX-License-Identifier: Apache-2.0
// Times SelectCuda, and AttendCuda over what it selected, on the seeded problem of `headscope bench` (bf16, causal),
// cold L2, CUDA events, medians: the share of selection is of one run.
//
//   select_bench [--lengths 8192,32768] [--heads 32:8] [--head-dim 128] [--repeats N] METHOD[:PARAMETERS] ..
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/contiguous.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_resources.h"
#include "kernels/cuda_select.h"
#include "kernels/method.h"
#include "kernels/seeded_problem.h"
#include "kernels/sparse_index.h"

namespace headscope::kernels {
namespace {

void Check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "select_bench: %s\n", status.message().c_str());
  std::exit(1);
}

DeviceMemory Allocate(size_t bytes) {
  DeviceMemory memory;
  Check(AllocateOnDevice(static_cast<int64_t>(bytes), "a benchmark", &memory));
  return memory;
}

double Median(int repeats, const std::function<Status()>& work) {
  constexpr size_t kFlushBytes = size_t{512} << 20;
  const DeviceMemory flush = Allocate(kFlushBytes);
  CudaEvent start, stop;
  Check(MakeEvent(&start));
  Check(MakeEvent(&stop));
  Check(work());
  std::vector<double> times(static_cast<size_t>(repeats));
  for (double& time : times) {
    cudaMemsetAsync(flush.get(), 1, kFlushBytes, nullptr);
    cudaEventRecord(start.get());
    Check(work());
    cudaEventRecord(stop.get());
    Check(CudaStatus(cudaEventSynchronize(stop.get()), "a timed run"));
    Check(MillisecondsBetween(start, stop, &time));
  }
  const auto middle = times.begin() + static_cast<int64_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

void Measure(const std::string& text, const AttentionProblem& problem, const AttentionOutput& output, int repeats) {
  const size_t colon = text.find(':');
  const PrefillMethod* const method = FindPrefillMethod(text.substr(0, colon));
  const CudaSelector* const selector = method == nullptr ? nullptr : FindCudaSelector(*method);
  if (selector == nullptr) {
    std::fprintf(stderr, "select_bench: %s has no selector for GPUs\n", text.c_str());
    std::exit(2);
  }
  ParameterValues values(method->spec());
  const std::string error = values.Parse(method->spec(), colon == std::string::npos ? "" : text.substr(colon + 1));
  if (!error.empty()) Check({StatusCode::kInvalidArgument, error});
  CudaSelectSizes sizes;
  Check(SelectCudaBufferSizes(*selector, problem, values, &sizes));
  const DeviceMemory index = Allocate(sizes.index_bytes);
  const DeviceMemory workspace = Allocate(std::max<size_t>(sizes.workspace_bytes, 16));
  const CudaSelectBuffers buffers{index.get(), sizes.index_bytes, workspace.get(), sizes.workspace_bytes};
  SparseIndexView view;
  const double select =
      Median(repeats, [&] { return SelectCuda(*selector, problem, values, buffers, &view, nullptr); });
  SparseIndex host;
  Check(DownloadIndex(view, &host, nullptr));
  Check(Validate(host.View()));
  const double attend = Median(std::min(repeats, 3), [&] { return AttendCuda(problem, view, output, nullptr); });
  std::printf("%-44s %7d %2d:%-2d %8.4f %9.3f %9.2f %7.2f %10.1f %10.1f\n", text.c_str(), problem.seq_q,
              problem.num_qo_heads, problem.num_kv_heads, CountPairs(host.View()).Density(), select, attend,
              100 * select / (select + attend), static_cast<double>(sizes.index_bytes) * 0x1p-20,
              static_cast<double>(sizes.workspace_bytes) * 0x1p-20);
  std::fflush(stdout);
}

std::vector<std::string> Split(const std::string& text, char mark) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, mark);) parts.push_back(part);
  return parts;
}

int Main(int argc, char** argv) {
  std::string lengths = "8192,32768,131072";
  std::string heads = "32:32";
  int32_t head_dim = 128;
  int repeats = 9;
  std::vector<std::string> methods;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--", 0) != 0) {
      methods.push_back(argument);
      continue;
    }
    if (i + 1 == argc) {
      std::fprintf(stderr, "select_bench: %s needs a value\n", argument.c_str());
      return 2;
    }
    const std::string value = argv[++i];
    if (argument == "--lengths") {
      lengths = value;
    } else if (argument == "--heads") {
      heads = value;
    } else if (argument == "--head-dim") {
      head_dim = std::atoi(value.c_str());
    } else if (argument == "--repeats") {
      repeats = std::max(1, std::atoi(value.c_str()));
    } else {
      std::fprintf(stderr, "select_bench: what is %s?\n", argument.c_str());
      return 2;
    }
  }
  const std::vector<std::string> both = Split(heads, ':');
  std::printf("%-44s %7s %-5s %8s %9s %9s %7s %10s %10s\n", "method", "tokens", "heads", "kept", "select ms",
              "attend ms", "share %", "index MiB", "work MiB");
  for (const std::string& length : Split(lengths, ',')) {
    SeededProblem shape;
    shape.num_qo_heads = std::atoi(both.front().c_str());
    shape.num_kv_heads = std::atoi(both.back().c_str());
    shape.head_dim = head_dim;
    shape.seq_q = shape.seq_k = std::atoi(length.c_str());
    std::vector<DeviceMemory> tensors;
    for (const SeededTensor tensor : {SeededTensor::kQuery, SeededTensor::kKey, SeededTensor::kValue}) {
      std::vector<char> host(static_cast<size_t>(ElementCount(shape, tensor)) * 2);
      Check(FillSeeded(shape, tensor, DType::kBFloat16, {}, host.data()));
      tensors.push_back(Allocate(host.size()));
      Check(CudaStatus(cudaMemcpy(tensors.back().get(), host.data(), host.size(), cudaMemcpyHostToDevice), "a copy"));
    }
    const auto rows = static_cast<size_t>(int64_t{shape.num_qo_heads} * shape.seq_q);
    const DeviceMemory o = Allocate(rows * static_cast<size_t>(head_dim) * 2);
    const DeviceMemory lse = Allocate(rows * sizeof(float));
    AttentionProblem problem;
    problem.num_qo_heads = shape.num_qo_heads;
    problem.num_kv_heads = shape.num_kv_heads;
    problem.head_dim = head_dim;
    problem.seq_q = problem.seq_k = shape.seq_q;
    problem.dtype = DType::kBFloat16;
    SetContiguousTensors(tensors[0].get(), tensors[1].get(), tensors[2].get(), &problem);
    AttentionOutput output;
    output.o = ContiguousTensor<void>(o.get(), problem.num_qo_heads, problem.seq_q, head_dim);
    output.lse = static_cast<float*>(lse.get());
    for (const std::string& method : methods) Measure(method, problem, output, repeats);
  }
  return 0;
}

}  // namespace
}  // namespace headscope::kernels

int main(int argc, char** argv) {
  return headscope::kernels::Main(argc, argv);
}
