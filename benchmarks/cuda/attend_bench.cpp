// Times AttendCuda on fixed index sets (bf16, head_dim 128, causal), cold L2, CUDA events, median and median absolute
// deviation.
//
//   attend_bench [--baseline FILE] [--repeats N] [--only SUBSTRING]
//
// FILE has lines "LENGTH MILLISECONDS" of another dense kernel for 32 heads (benchmarks/cuda/dense_baseline.py writes
// them, on the same GPU in the same session); every rate is then also printed as a ratio to that kernel's rate at the
// same length. 4 * head_dim FLOP per kept pair.
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
#include <random>
#include <string>
#include <vector>

#include "cuda_reference.h"
#include "kernels/cuda_executor.h"
#include "kernels/sparse_index.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kHeadDim = 128;
constexpr int32_t kTileRows = 128;

struct Workload {
  std::string name;
  int32_t length;
  int32_t num_heads;
  SparseIndex index;
  // Pairs of the dense causal problem over this one's kept pairs times the rate ratio is the speed-up; printed where a
  // target speaks of time.
};

SparseIndex StartIndex(int32_t length, int32_t heads, ElementRule rule) {
  SparseIndex index;
  index.num_qo_heads = heads;
  index.seq_q = index.seq_k = length;
  index.tile_rows = kTileRows;
  index.rule = rule;
  return index;
}

// Closes the list of the present head and tile; runs and columns were appended to the index.
class ListScope {
 public:
  explicit ListScope(SparseIndex* index) : index_(index) {
    index->run_begin.push_back(static_cast<int64_t>(index->runs.size()));
    index->column_begin.push_back(static_cast<int64_t>(index->columns.size()));
  }
  ~ListScope() {
    index_->run_count.push_back(
        static_cast<int32_t>(static_cast<int64_t>(index_->runs.size()) - index_->run_begin.back()));
    index_->column_count.push_back(
        static_cast<int32_t>(static_cast<int64_t>(index_->columns.size()) - index_->column_begin.back()));
  }
  ListScope(const ListScope&) = delete;
  ListScope& operator=(const ListScope&) = delete;
  void Run(int32_t start, int32_t end, uint32_t flags) {
    if (end > start) index_->runs.push_back(KeyRun::Make(start, end - start, flags));
  }

 private:
  SparseIndex* index_;
};

constexpr ElementRule kCausal{MaskKind::kCausal, 0, 0};

SparseIndex Dense(int32_t length, int32_t heads) {
  SparseIndex index = StartIndex(length, heads, kCausal);
  for (int32_t h = 0; h < heads; ++h) {
    for (int32_t row = 0; row < length; row += kTileRows) {
      ListScope list(&index);
      list.Run(0, row, 0);
      list.Run(row, std::min(row + kTileRows, length), kRunPartial);
    }
  }
  return index;
}

// `density` of the 128 x 128 blocks left of the diagonal, and the diagonal.
SparseIndex Blocks(int32_t length, int32_t heads, double density) {
  SparseIndex index = StartIndex(length, heads, kCausal);
  std::mt19937 random(7);
  std::vector<int32_t> blocks;
  for (int32_t h = 0; h < heads; ++h) {
    for (int32_t row = 0; row < length; row += kTileRows) {
      ListScope list(&index);
      const int32_t below = row / kTileRows;
      blocks.resize(static_cast<size_t>(below));
      for (int32_t b = 0; b < below; ++b) blocks[static_cast<size_t>(b)] = b;
      std::shuffle(blocks.begin(), blocks.end(), random);
      blocks.resize(static_cast<size_t>(std::lround(below * density)));
      std::sort(blocks.begin(), blocks.end());
      for (const int32_t b : blocks) list.Run(b * kTileRows, (b + 1) * kTileRows, 0);
      list.Run(row, row + kTileRows, kRunPartial);
    }
  }
  return index;
}

// `count` single columns of the whole sequence, and a band of `band` keys up to the diagonal.
SparseIndex VerticalSlash(int32_t length, int32_t heads, int32_t count, int32_t band) {
  SparseIndex index = StartIndex(length, heads, kCausal);
  std::mt19937 random(11);
  for (int32_t h = 0; h < heads; ++h) {
    std::vector<int32_t> columns;
    for (int32_t i = 0; i < count; ++i)
      columns.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(length)));
    std::sort(columns.begin(), columns.end());
    columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
    for (int32_t row = 0; row < length; row += kTileRows) {
      ListScope list(&index);
      const int32_t band_begin = std::max(0, row - band);
      list.Run(band_begin, row, 0);
      list.Run(row, row + kTileRows, kRunPartial);
      for (const int32_t column : columns) {
        if (column >= band_begin) break;
        index.columns.push_back(column);
      }
    }
  }
  return index;
}

SparseIndex AShape(int32_t length, int32_t heads, int32_t sinks, int32_t window) {
  SparseIndex index = StartIndex(length, heads, {MaskKind::kCausalWindow, window, sinks});
  for (int32_t h = 0; h < heads; ++h) {
    for (int32_t row = 0; row < length; row += kTileRows) {
      ListScope list(&index);
      const int32_t last = row + kTileRows - 1;
      const int32_t window_begin = std::max(0, row - window + 1);
      const int32_t window_full = std::max(0, last - window + 1);
      const int32_t sinks_end = std::min(sinks, row);
      if (window_begin <= sinks_end) {
        list.Run(0, row, window_full <= sinks ? 0u : kRunPartial + 0u);
      } else {
        list.Run(0, sinks_end, 0);
        list.Run(window_begin, window_full, kRunPartial);
        list.Run(window_full, row, 0);
      }
      list.Run(row, row + kTileRows, kRunPartial);
    }
  }
  return index;
}

// S2-Attention: blocks of 64, each row block keeps its own and every `stride`-th, shifted by one from head to head.
SparseIndex S2(int32_t length, int32_t heads, int32_t stride) {
  SparseIndex index = StartIndex(length, heads, kCausal);
  for (int32_t h = 0; h < heads; ++h) {
    for (int32_t row = 0; row < length; row += kTileRows) {
      ListScope list(&index);
      const int32_t own = row / 64;
      for (int32_t block = (stride - h % stride) % stride; block < own; block += stride)
        list.Run(block * 64, block * 64 + 64, 0);
      list.Run(row, row + 64, kRunPartial | ((own + h) % stride == 0 ? 0u : kRunUpperHalf + 0u));
      list.Run(row + 64, row + 128, kRunPartial | kRunLowerHalf);
    }
  }
  return index;
}

class Device {
 public:
  explicit Device(int64_t bytes) {
    if (cudaMalloc(&data_, static_cast<size_t>(bytes)) != cudaSuccess) {
      std::fprintf(stderr, "attend_bench: out of GPU memory (%lld MiB)\n", static_cast<long long>(bytes >> 20));
      std::exit(1);
    }
  }
  ~Device() { cudaFree(data_); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
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

Timing Time(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output, int repeats) {
  constexpr size_t kFlushBytes = size_t{128} << 20;
  const Device flush(kFlushBytes);
  cudaEvent_t start, stop;
  cudaEventCreate(&start);
  cudaEventCreate(&stop);
  Check(AttendCuda(problem, index, output, nullptr));
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    cudaMemsetAsync(flush.data(), i, kFlushBytes, nullptr);
    cudaEventRecord(start);
    Check(AttendCuda(problem, index, output, nullptr));
    cudaEventRecord(stop);
    if (cudaEventSynchronize(stop) != cudaSuccess) {
      std::fprintf(stderr, "attend_bench: %s\n", cudaGetErrorString(cudaGetLastError()));
      std::exit(1);
    }
    float ms = 0;
    cudaEventElapsedTime(&ms, start, stop);
    times.push_back(ms);
  }
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  Timing timing;
  timing.median = MedianOf(times);
  for (double& t : times) t = std::abs(t - timing.median);
  timing.mad = MedianOf(times);
  return timing;
}

void Measure(const std::string& name, int32_t length, int32_t heads, const SparseIndex& host_index, int repeats,
             const std::map<int32_t, double>& baseline) {
  CudaIndexBuffers index;
  const std::unique_ptr<CudaIndexBuffers, void (*)(CudaIndexBuffers*)> free_index(&index, FreeIndex);
  Check(UploadIndex(host_index.View(), &index));
  const int64_t count = int64_t{heads} * length * kHeadDim;
  const Device q(count * 2), k(count * 2), v(count * 2), o(count * 2), lse(int64_t{heads} * length * 4);
  uint64_t seed = 1;
  for (const Device* tensor : {&q, &k, &v}) testing::FillNormal(DType::kBFloat16, tensor->data(), count, 1.0f, seed++);
  AttentionProblem problem;
  problem.num_qo_heads = problem.num_kv_heads = heads;
  problem.head_dim = kHeadDim;
  problem.seq_q = problem.seq_k = length;
  problem.dtype = DType::kBFloat16;
  problem.q = {q.data(), count, int64_t{length} * kHeadDim, kHeadDim};
  problem.k = {k.data(), count, int64_t{length} * kHeadDim, kHeadDim};
  problem.v = {v.data(), count, int64_t{length} * kHeadDim, kHeadDim};
  AttentionOutput output;
  output.o = {o.data(), count, int64_t{length} * kHeadDim, kHeadDim};
  output.lse = static_cast<float*>(lse.data());

  const Timing timing = Time(problem, index.view, output, repeats);
  const PairCount pairs = CountPairs(host_index.View());
  const double rate = static_cast<double>(AttentionFlops(pairs.kept, kHeadDim)) / (timing.median * 1e9);
  std::printf("%-22s %7d %4d %8.4f %9.3f %7.3f %8.1f", name.c_str(), length, heads, pairs.Density(), timing.median,
              timing.mad, rate);
  if (const auto dense = baseline.find(length); dense != baseline.end()) {
    const double dense_ms = dense->second * heads / 32;
    const double dense_rate = static_cast<double>(AttentionFlops(pairs.dense, kHeadDim)) / (dense_ms * 1e9);
    std::printf(" %8.3f %8.2f", rate / dense_rate, dense_ms / timing.median);
  }
  std::printf("\n");
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  std::map<int32_t, double> baseline;
  int repeats = 7;
  std::string only;
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
    }
  }
  CudaDeviceInfo info;
  Check(QueryCudaDevice(0, &info));
  std::printf("%s, %d repeats\n", info.name.c_str(), repeats);
  std::printf("%-22s %7s %4s %8s %9s %7s %8s %8s %8s\n", "index", "length", "head", "density", "ms", "mad", "TFLOP/s",
              "x rate", "x time");
  auto measure = [&](const std::string& name, int32_t length, int32_t heads, auto make) {
    if (!only.empty() && name.find(only) == std::string::npos) return;
    Measure(name, length, heads, make(), repeats, baseline);
  };
  for (const int32_t length : {8192, 16384, 32768, 65536, 131072}) {
    measure("dense", length, 32, [&] { return Dense(length, 32); });
  }
  for (const int32_t length : {32768, 65536, 131072}) {
    measure("blocks 10%", length, 32, [&] { return Blocks(length, 32, 0.1); });
  }
  measure("blocks 92%", 32768, 32, [&] { return Blocks(32768, 32, 0.92); });
  for (const int32_t length : {65536, 131072}) {
    measure("columns 1000 band 4096", length, 32, [&] { return VerticalSlash(length, 32, 1000, 4096); });
  }
  measure("a-shape 1024+4096", 131072, 32, [&] { return AShape(131072, 32, 1024, 4096); });
  measure("s2 l1 v15", 65536, 64, [&] { return S2(65536, 64, 15); });
  measure("columns 1000 band 512", 8192, 32, [&] { return VerticalSlash(8192, 32, 1000, 512); });
  return 0;
}

}  // namespace
}  // namespace headscope::kernels

int main(int argc, char** argv) {
  return headscope::kernels::Main(argc, argv);
}
