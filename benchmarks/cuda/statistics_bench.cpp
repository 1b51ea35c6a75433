// SPDX-License-Identifier: Apache-2.0
// Times the GPU's statistics (bf16, head_dim 128, 32 heads, causal), CUDA events, median and spread.
//
//   statistics_bench [--repeats N] [--lengths A,B,..] [--heads QO:KV]
//
// 2 * head_dim FLOP per causal pair: half of what dense attention does, so benchmarks/cuda/dense_baseline.py's times
// are to be halved before they are compared.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "cuda_lists.h"
#include "cuda_reference.h"
#include "kernels/contiguous.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_resources.h"
#include "kernels/cuda_statistics.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kHeadDim = 128;

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(int64_t count) {
    const Status status = AllocateOnDevice(count * static_cast<int64_t>(sizeof(T)), "a benchmark", &memory_);
    if (status.ok()) return;
    std::fprintf(stderr, "statistics_bench: %s\n", status.message().c_str());
    std::exit(4);
  }
  T* get() const { return static_cast<T*>(memory_.get()); }

 private:
  DeviceMemory memory_;
};

void Require(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "statistics_bench: %s\n", status.message().c_str());
  std::exit(1);
}

void Time(const char* name, int32_t length, int32_t heads, int repeats, const std::function<Status()>& run) {
  CudaEvent start, stop;
  Require(MakeEvent(&start));
  Require(MakeEvent(&stop));
  std::vector<double> times;
  for (int i = 0; i <= repeats; ++i) {
    cudaEventRecord(start.get());
    Require(run());
    cudaEventRecord(stop.get());
    if (const cudaError_t error = cudaEventSynchronize(stop.get()); error != cudaSuccess) {
      std::fprintf(stderr, "statistics_bench: %s failed: %s\n", name, cudaGetErrorString(error));
      std::exit(1);
    }
    double ms = 0;
    Require(MillisecondsBetween(start, stop, &ms));
    if (i > 0) times.push_back(ms);  // the first warms up
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  const double pairs = 0.5 * length * (length + 1.0) * heads;
  std::printf("%7d  %-16s %9.3f ms  (%.3f .. %.3f)  %6.1f TFLOP/s\n", length, name, median, times.front(), times.back(),
              2.0 * kHeadDim * pairs / median * 1e-9);
  std::fflush(stdout);
}

void RunLength(int32_t length, int32_t num_qo_heads, int32_t num_kv_heads, int repeats) {
  AttentionProblem problem;
  problem.num_qo_heads = num_qo_heads;
  problem.num_kv_heads = num_kv_heads;
  problem.head_dim = kHeadDim;
  problem.seq_q = problem.seq_k = length;
  problem.dtype = DType::kBFloat16;
  const int64_t head_size = int64_t{length} * kHeadDim;
  const int64_t rows = int64_t{num_qo_heads} * length;
  DeviceArray<uint16_t> q(num_qo_heads * head_size), k(num_kv_heads * head_size);
  if (!testing::FillNormal(problem.dtype, q.get(), num_qo_heads * head_size, 1.5f, 1) ||
      !testing::FillNormal(problem.dtype, k.get(), num_kv_heads * head_size, 1.5f, 2)) {
    std::fprintf(stderr, "statistics_bench: the inputs could not be filled\n");
    std::exit(1);
  }
  SetContiguousTensors(q.get(), k.get(), nullptr, &problem);
  DeviceArray<float> lse(rows), floats(rows * kTopMassCounts), texels(int64_t{num_qo_heads} * 65536);
  DeviceArray<double> columns(rows), distances(rows);

  Time("row LSE", length, num_qo_heads, repeats, [&] { return RowLseCuda(problem, 0, lse.get(), nullptr); });
  CudaIndexBuffers dense;
  Require(UploadIndex(
      testing::MakeLists({1, num_qo_heads, length, length, 0, 128, {}}, testing::Pattern::kDense, 1).View(), &dense));
  Time("kept mass, all", length, num_qo_heads, repeats,
       [&] { return KeptMassCuda(problem, 0, lse.get(), dense.view, floats.get(), nullptr); });
  Time("line mass", length, num_qo_heads, repeats,
       [&] { return LineMassCuda(problem, 0, lse.get(), {}, columns.get(), distances.get(), nullptr); });
  int64_t bytes = 0;
  Require(TopMassWorkspaceBytes(problem, &bytes));
  DeviceArray<char> workspace(bytes);
  Time("top-k mass", length, num_qo_heads, repeats,
       [&] { return TopMassCuda(problem, 0, lse.get(), floats.get(), workspace.get(), bytes, nullptr); });
  TexelRequest request;
  while (int64_t{256} << request.level < length) ++request.level;
  for (const TexelValue value : {TexelValue::kMaxLog2, TexelValue::kSum}) {
    request.value = value;
    Time(value == TexelValue::kSum ? "tile by mean" : "tile by max", length, num_qo_heads, repeats,
         [&] { return TexelsCuda(problem, 0, lse.get(), request, texels.get(), nullptr); });
  }
}

int Main(int argc, char** argv) {
  int repeats = 5;
  int32_t num_qo_heads = 32, num_kv_heads = 32;
  std::vector<int32_t> lengths = {16384, 32768, 131072};
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--repeats") == 0) {
      repeats = std::max(1, std::atoi(argv[i + 1]));
    } else if (std::strcmp(argv[i], "--heads") == 0) {
      num_qo_heads = std::max(1, std::atoi(argv[i + 1]));
      const char* const colon = std::strchr(argv[i + 1], ':');
      num_kv_heads = colon != nullptr ? std::max(1, std::atoi(colon + 1)) : num_qo_heads;
    } else if (std::strcmp(argv[i], "--lengths") == 0) {
      lengths.clear();
      for (const char* p = argv[i + 1]; p != nullptr;
           p = std::strchr(p, ',') != nullptr ? std::strchr(p, ',') + 1 : nullptr) {
        lengths.push_back(std::max(1, std::atoi(p)));
      }
    } else {
      std::fprintf(stderr, "statistics_bench: unknown option %s\n", argv[i]);
      return 2;
    }
  }
  CudaDeviceInfo info;
  Require(QueryCudaDevice(0, &info));
  std::printf("%s, bf16, head_dim %d, %d:%d heads, causal, %d repeats\n", info.name.c_str(), kHeadDim, num_qo_heads,
              num_kv_heads, repeats);
  for (const int32_t length : lengths) RunLength(length, num_qo_heads, num_kv_heads, repeats);
  return 0;
}

}  // namespace
}  // namespace headscope::kernels

int main(int argc, char** argv) {
  return headscope::kernels::Main(argc, argv);
}
