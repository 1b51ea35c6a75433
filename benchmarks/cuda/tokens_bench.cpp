// SPDX-License-Identifier: Apache-2.0
// Times AttendTokensCuda (bf16, CUDA events, cold L2): lists of 2048 tokens of a context, drawn at random or as
// indexers draw them, with neighbouring queries sharing most of their tokens.
//
//   tokens_bench [--repeats N] [--queries N] [--keys N] [--heads N] [--length N]
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "cuda_reference.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_resources.h"
#include "kernels/cuda_tokens.h"

namespace headscope::kernels {
namespace {

void Check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "tokens_bench: %s\n", status.message().c_str());
  std::exit(1);
}

DeviceMemory Allocate(int64_t bytes) {
  DeviceMemory memory;
  Check(AllocateOnDevice(bytes, "a benchmark", &memory));
  return memory;
}

struct Shape {
  int32_t queries = 4096, keys = 32768, heads = 64, length = 2048;
};

// shared: the share of its tokens that a query has from the one before.
std::vector<int32_t> Lists(const Shape& shape, double shared) {
  std::mt19937 random(3);
  std::vector<int32_t> lists, list;
  std::vector<char> in_list(static_cast<size_t>(shape.keys));
  const auto draw = [&] {
    int32_t token;
    do token = static_cast<int32_t>(random() % static_cast<uint32_t>(shape.keys));
    while (in_list[static_cast<size_t>(token)] != 0);
    in_list[static_cast<size_t>(token)] = 1;
    return token;
  };
  for (int32_t t = 0; t < shape.queries; ++t) {
    if (list.empty()) {
      for (int32_t i = 0; i < shape.length; ++i) list.push_back(draw());
    } else {
      for (int32_t& token : list) {
        if (static_cast<double>(random() % 1000) / 1000.0 < shared) continue;
        in_list[static_cast<size_t>(token)] = 0;
        token = draw();
      }
    }
    lists.insert(lists.end(), list.begin(), list.end());
  }
  return lists;
}

void Measure(const Shape& shape, const char* name, double shared, int repeats) {
  const std::vector<int32_t> lists = Lists(shape, shared);
  const int64_t rows = int64_t{shape.queries} * shape.heads;
  const DeviceMemory q = Allocate(rows * kLatentKeyDim * 2), kv = Allocate(int64_t{shape.keys} * kLatentKeyDim * 2);
  const DeviceMemory o = Allocate(rows * kLatentValueDim * 2), lse = Allocate(rows * 4), row_max = Allocate(rows * 4);
  const DeviceMemory tokens = Allocate(static_cast<int64_t>(lists.size()) * 4);
  testing::FillNormal(DType::kBFloat16, q.get(), rows * kLatentKeyDim, 1.0f, 1);
  testing::FillNormal(DType::kBFloat16, kv.get(), int64_t{shape.keys} * kLatentKeyDim, 1.0f, 2);
  Check(CopyToDevice(lists.data(), static_cast<int64_t>(lists.size()) * 4, tokens.get()));
  TokenAttention a;
  a.num_queries = shape.queries;
  a.num_keys = shape.keys;
  a.num_qo_heads = shape.heads;
  a.list_length = shape.length;
  a.q = q.get();
  a.q_head_stride = kLatentKeyDim;
  a.q_query_stride = int64_t{shape.heads} * kLatentKeyDim;
  a.kv = kv.get();
  a.kv_stride = kLatentKeyDim;
  a.tokens = static_cast<const int32_t*>(tokens.get());
  a.tokens_stride = shape.length;
  a.scale = 1.0f / std::sqrt(static_cast<float>(kLatentKeyDim));
  a.o = o.get();
  a.o_head_stride = kLatentValueDim;
  a.o_query_stride = int64_t{shape.heads} * kLatentValueDim;
  a.lse = static_cast<float*>(lse.get());
  a.row_max = static_cast<float*>(row_max.get());

  constexpr size_t kFlushBytes = size_t{512} << 20;
  const DeviceMemory flush = Allocate(kFlushBytes);
  CudaEvent start, stop;
  Check(MakeEvent(&start));
  Check(MakeEvent(&stop));
  std::vector<double> times;
  for (int i = 0; i <= repeats; ++i) {
    cudaMemsetAsync(flush.get(), i, kFlushBytes, nullptr);
    cudaEventRecord(start.get());
    Check(AttendTokensCuda(a, nullptr));
    cudaEventRecord(stop.get());
    Check(CudaStatus(cudaEventSynchronize(stop.get()), "a timed run"));
    double ms = 0;
    Check(MillisecondsBetween(start, stop, &ms));
    if (i > 0) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  const double flops = 2.0 * static_cast<double>(rows) * shape.length * (kLatentKeyDim + kLatentValueDim);
  const double gathered =
      static_cast<double>(shape.queries) * ((shape.heads + 63) / 64) * shape.length * kLatentKeyDim * 2;
  std::printf("%d queries x %d heads, %d of %d tokens, %-8s %8.4f ms [%.4f, %.4f] %7.1f TFLOP/s, gathers %.2f TB/s\n",
              shape.queries, shape.heads, shape.length, shape.keys, name, median, times[times.size() / 4],
              times[times.size() * 3 / 4], flops / (median * 1e9), gathered / (median * 1e9));
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  int repeats = 15;
  Shape shape;
  for (int i = 1; i + 1 < argc; i += 2) {
    const int value = std::max(1, std::atoi(argv[i + 1]));
    if (std::strcmp(argv[i], "--repeats") == 0) repeats = value;
    if (std::strcmp(argv[i], "--queries") == 0) shape.queries = value;
    if (std::strcmp(argv[i], "--keys") == 0) shape.keys = value;
    if (std::strcmp(argv[i], "--heads") == 0) shape.heads = value;
    if (std::strcmp(argv[i], "--length") == 0) shape.length = value;
  }
  shape.length = std::min(shape.length, shape.keys);
  CudaDeviceInfo info;
  Check(QueryCudaDevice(0, &info));
  std::printf("%s, bf16, keys of 576, values of 512, %d repeats\n", info.name.c_str(), repeats);
  Measure(shape, "random", 0.0, repeats);
  Measure(shape, "shared", 0.9, repeats);
  return 0;
}

}  // namespace
}  // namespace headscope::kernels

int main(int argc, char** argv) {
  return headscope::kernels::Main(argc, argv);
}
