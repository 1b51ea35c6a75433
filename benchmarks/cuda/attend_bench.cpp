// SPDX-License-Identifier: Apache-2.0
// Times AttendCuda on fixed index sets (bf16, causal), cold L2, CUDA events, median and median absolute deviation.
//
//   attend_bench [--baseline FILE] [--repeats N] [--only SUBSTRING] [--head-dim N] [--v-head-dim N] [--row-max 1]
//
// head_dim is 128, and v_head_dim the same, unless they are given (192 and 128: the heads of multi-head latent
// attention). FILE has lines "LENGTH MILLISECONDS" of another dense kernel for 32 heads of these sizes
// (benchmarks/cuda/dense_baseline.py writes them, on the same GPU in the same session); every rate is then also printed
// as a ratio to that kernel's rate at the same length. 2 * (head_dim + v_head_dim) FLOP per kept pair. With
// --row-max 1 each index is timed once more, with the rows' largest scores.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda_reference.h"
#include "kernels/contiguous.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_resources.h"
#include "kernels/fixed_index.h"
#include "kernels/sparse_index.h"

namespace headscope::kernels {
namespace {

struct HeadSizes {
  int32_t keys = 128;
  int32_t values = 0;  // 0: as keys

  int32_t Values() const { return values > 0 ? values : keys; }
  double Flops(int64_t pairs) const { return 2.0 * static_cast<double>(pairs) * (keys + Values()); }
};

struct Timing {
  double median = 0;  // ms
  double mad = 0;
};

double MedianOf(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void Check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "attend_bench: %s\n", status.message().c_str());
  std::exit(1);
}

DeviceMemory Allocate(int64_t bytes) {
  DeviceMemory memory;
  Check(AllocateOnDevice(bytes, "a benchmark", &memory));
  return memory;
}

Timing Time(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output, int repeats) {
  constexpr size_t kFlushBytes = size_t{128} << 20;
  const DeviceMemory flush = Allocate(kFlushBytes);
  CudaEvent start, stop;
  Check(MakeEvent(&start));
  Check(MakeEvent(&stop));
  Check(AttendCuda(problem, index, output, nullptr));
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    cudaMemsetAsync(flush.get(), i, kFlushBytes, nullptr);
    cudaEventRecord(start.get());
    Check(AttendCuda(problem, index, output, nullptr));
    cudaEventRecord(stop.get());
    Check(CudaStatus(cudaEventSynchronize(stop.get()), "a timed run"));
    double ms = 0;
    Check(MillisecondsBetween(start, stop, &ms));
    times.push_back(ms);
  }
  Timing timing;
  timing.median = MedianOf(times);
  for (double& t : times) t = std::abs(t - timing.median);
  timing.mad = MedianOf(times);
  return timing;
}

void Measure(const std::string& name, int32_t length, int32_t heads, const SparseIndex& host_index, int repeats,
             const HeadSizes& sizes, bool with_row_max, const std::map<int32_t, double>& baseline) {
  CudaIndexBuffers index;
  Check(UploadIndex(host_index.View(), &index));
  const int64_t rows = int64_t{heads} * length;
  const int64_t count = rows * sizes.keys, value_count = rows * sizes.Values();
  const DeviceMemory q = Allocate(count * 2), k = Allocate(count * 2);
  const DeviceMemory v = Allocate(value_count * 2), o = Allocate(value_count * 2);
  const DeviceMemory lse = Allocate(rows * 4), row_max = Allocate(rows * 4);
  testing::FillNormal(DType::kBFloat16, q.get(), count, 1.0f, 1);
  testing::FillNormal(DType::kBFloat16, k.get(), count, 1.0f, 2);
  testing::FillNormal(DType::kBFloat16, v.get(), value_count, 1.0f, 3);
  AttentionProblem problem;
  problem.num_qo_heads = problem.num_kv_heads = heads;
  problem.head_dim = sizes.keys;
  problem.v_head_dim = sizes.values;
  problem.seq_q = problem.seq_k = length;
  problem.dtype = DType::kBFloat16;
  SetContiguousTensors(q.get(), k.get(), v.get(), &problem);
  AttentionOutput output;
  output.o = ContiguousTensor<void>(o.get(), heads, length, sizes.Values());
  output.lse = static_cast<float*>(lse.get());

  const PairCount pairs = CountPairs(host_index.View());
  const auto print = [&](const std::string& what) {
    const Timing timing = Time(problem, index.view, output, repeats);
    const double rate = sizes.Flops(pairs.kept) / (timing.median * 1e9);
    std::printf("%-22s %7d %4d %8.4f %9.3f %7.3f %8.1f", what.c_str(), length, heads, pairs.Density(), timing.median,
                timing.mad, rate);
    if (const auto dense = baseline.find(length); dense != baseline.end()) {
      const double dense_ms = dense->second * heads / 32;
      const double dense_rate = sizes.Flops(pairs.dense) / (dense_ms * 1e9);
      std::printf(" %8.3f %8.2f", rate / dense_rate, dense_ms / timing.median);
    }
    std::printf("\n");
    std::fflush(stdout);
  };
  print(name);
  if (!with_row_max) return;
  output.row_max = static_cast<float*>(row_max.get());
  print("  with row_max");
}

int Main(int argc, char** argv) {
  std::map<int32_t, double> baseline;
  int repeats = 7;
  std::string only;
  HeadSizes sizes;
  bool with_row_max = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--baseline") == 0) {
      std::ifstream file(argv[i + 1]);
      int32_t length;
      double ms;
      while (file >> length >> ms) baseline[length] = ms;
    } else if (std::strcmp(argv[i], "--repeats") == 0) {
      repeats = std::max(1, std::atoi(argv[i + 1]));
    } else if (std::strcmp(argv[i], "--only") == 0) {
      only = argv[i + 1];
    } else if (std::strcmp(argv[i], "--head-dim") == 0) {
      sizes.keys = std::atoi(argv[i + 1]);
    } else if (std::strcmp(argv[i], "--v-head-dim") == 0) {
      sizes.values = std::atoi(argv[i + 1]);
    } else if (std::strcmp(argv[i], "--row-max") == 0) {
      with_row_max = std::atoi(argv[i + 1]) != 0;
    }
  }
  CudaDeviceInfo info;
  Check(QueryCudaDevice(0, &info));
  std::printf("%s, head_dim %d, v_head_dim %d, %d repeats\n", info.name.c_str(), sizes.keys, sizes.Values(), repeats);
  std::printf("%-22s %7s %4s %8s %9s %7s %8s %8s %8s\n", "index", "length", "head", "density", "ms", "mad", "TFLOP/s",
              "x rate", "x time");
  auto measure = [&](const std::string& name, int32_t length, int32_t heads) {
    if (!only.empty() && name.find(only) == std::string::npos) return;
    FixedSet set;
    Check(ParseFixedSet(name, &set));
    Measure(name, length, heads, MakeFixedIndex(set, 1, heads, length, /*seed=*/1), repeats, sizes, with_row_max,
            baseline);
  };
  for (const int32_t length : {8192, 16384, 32768, 65536, 131072}) measure("dense", length, 32);
  for (const int32_t length : {32768, 65536, 131072}) measure("blocks-90", length, 32);
  measure("blocks-8", 32768, 32);
  for (const int32_t length : {65536, 131072}) measure("vertical-slash-1000x4096", length, 32);
  measure("a-shape-1024+4096", 131072, 32);
  measure("s2-l1v15", 65536, 64);
  measure("vertical-slash-1000x512", 8192, 32);
  return 0;
}

}  // namespace
}  // namespace headscope::kernels

int main(int argc, char** argv) {
  return headscope::kernels::Main(argc, argv);
}
