// SPDX-License-Identifier: Apache-2.0
// Times AttendPackedCuda beside AttendCuda on the same dense causal work (bf16, cold L2, CUDA events): sequences of one
// length as a batch, packed, and in pages of several sizes, all in turn, the order shuffled in each round; and
// sequences of many lengths, which only a packed call takes at once, beside one call for each.
//
//   packed_bench [--repeats N] [--head-dim N]
//
// Pages lie in a random order; of 256 keys they are timed in order as well, where they hold what packed keys hold, so
// that what is left between the two is the look-up and not where memory lies.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cuda_reference.h"
#include "kernels/contiguous.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_packed.h"
#include "kernels/cuda_resources.h"
#include "kernels/fixed_index.h"
#include "kernels/packed_index.h"
#include "kernels/sparse_index.h"

namespace headscope::kernels {
namespace {

void Check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "packed_bench: %s\n", status.message().c_str());
  std::exit(1);
}

DeviceMemory Allocate(int64_t bytes) {
  DeviceMemory memory;
  Check(AllocateOnDevice(bytes, "a benchmark", &memory));
  return memory;
}

DeviceMemory Upload(const std::vector<int32_t>& values) {
  DeviceMemory memory = Allocate(static_cast<int64_t>(values.size() * sizeof(int32_t)));
  Check(CudaStatus(cudaMemcpy(memory.get(), values.data(), values.size() * sizeof(int32_t), cudaMemcpyHostToDevice),
                   "an upload"));
  return memory;
}

// Without validation: a packed index is valid sequence by sequence.
struct DeviceIndex {
  SparseIndexView view;
  std::vector<DeviceMemory> arrays;
};
DeviceIndex UploadPacked(const SparseIndex& index) {
  DeviceIndex device{index.View(), {}};
  const auto copy = [&]<typename T>(const std::vector<T>& values, const T** pointer) {
    if (values.empty()) return;
    device.arrays.push_back(Allocate(static_cast<int64_t>(values.size() * sizeof(T))));
    *pointer = static_cast<const T*>(device.arrays.back().get());
    Check(CudaStatus(
        cudaMemcpy(device.arrays.back().get(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
        "an upload"));
  };
  copy(index.run_begin, &device.view.run_begin);
  copy(index.run_count, &device.view.run_count);
  copy(index.column_begin, &device.view.column_begin);
  copy(index.column_count, &device.view.column_count);
  copy(index.runs, &device.view.runs);
  copy(index.columns, &device.view.columns);
  return device;
}

struct Row {
  std::string name;
  std::function<void()> run;
  std::vector<double> times = {};
};

void TimeInTurn(std::vector<Row>* rows, int repeats) {
  constexpr size_t kFlushBytes = size_t{512} << 20;
  const DeviceMemory flush = Allocate(kFlushBytes);
  CudaEvent start, stop;
  Check(MakeEvent(&start));
  Check(MakeEvent(&stop));
  std::mt19937 random(7);
  std::vector<size_t> order(rows->size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (int round = 0; round <= repeats; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) {
      cudaMemsetAsync(flush.get(), round, kFlushBytes, nullptr);
      cudaEventRecord(start.get());
      (*rows)[i].run();
      cudaEventRecord(stop.get());
      Check(CudaStatus(cudaEventSynchronize(stop.get()), "a timed run"));
      double ms = 0;
      Check(MillisecondsBetween(start, stop, &ms));
      if (round > 0) (*rows)[i].times.push_back(ms);
    }
  }
}

void Print(const std::string& work, std::vector<Row>* rows, double flops) {
  double first = 0;
  for (Row& row : *rows) {
    std::sort(row.times.begin(), row.times.end());
    const double median = row.times[row.times.size() / 2];
    if (first == 0) first = median;
    std::printf("%-18s %-22s %9.4f ms  [%.4f, %.4f] %7.1f TFLOP/s  %.3f\n", work.c_str(), row.name.c_str(), median,
                row.times[row.times.size() / 4], row.times[row.times.size() * 3 / 4], flops / (median * 1e9),
                first / median);
  }
  std::fflush(stdout);
}

void Measure(const std::string& work, const std::vector<int32_t>& lengths, int32_t heads, int32_t kv_heads,
             int32_t head_dim, int repeats) {
  FixedSet dense;
  Check(ParseFixedSet("dense", &dense));
  std::vector<SparseIndex> alone;
  std::vector<SparseIndexView> views;
  std::vector<int32_t> begins = {0};
  int64_t pairs = 0;
  for (const int32_t length : lengths) {
    alone.push_back(MakeFixedIndex(dense, 1, heads, length, 1));
    begins.push_back(begins.back() + length);
    pairs += CountPairs(alone.back().View()).kept;
  }
  for (const SparseIndex& index : alone) views.push_back(index.View());
  SparseIndex packed;
  Check(PackIndices(views, &packed));
  DeviceIndex index = UploadPacked(packed);
  index.view.keeps_everything = std::all_of(views.begin(), views.end(), KeepsEverything);
  const int32_t total = begins.back(), batch = static_cast<int32_t>(lengths.size());
  const int32_t longest = *std::max_element(lengths.begin(), lengths.end());
  const bool equal = *std::min_element(lengths.begin(), lengths.end()) == longest;
  const int64_t row = head_dim;

  AttentionProblem problem;
  problem.batch = batch;
  problem.num_qo_heads = heads;
  problem.num_kv_heads = kv_heads;
  problem.head_dim = head_dim;
  problem.seq_q = problem.seq_k = longest;
  problem.dtype = DType::kBFloat16;
  const int64_t q_count = total * heads * row;
  // Pages may hold a little more than the keys.
  const int64_t kv_count = (int64_t{total} + 512 * batch) * kv_heads * row;
  const DeviceMemory q = Allocate(2 * q_count), o = Allocate(2 * q_count), lse = Allocate(4 * int64_t{total} * heads);
  const DeviceMemory k = Allocate(2 * kv_count), v = Allocate(2 * kv_count);
  testing::FillNormal(DType::kBFloat16, q.get(), q_count, 1.0f, 1);
  testing::FillNormal(DType::kBFloat16, k.get(), kv_count, 1.0f, 2);
  testing::FillNormal(DType::kBFloat16, v.get(), kv_count, 1.0f, 3);
  // Heads inside tokens, as engines hold them, in every row of the table.
  problem.q = {q.get(), longest * heads * row, row, heads * row};
  problem.k = {k.get(), longest * kv_heads * row, row, kv_heads * row};
  problem.v = {v.get(), longest * kv_heads * row, row, kv_heads * row};
  AttentionOutput output;
  output.o = {o.get(), longest * heads * row, row, heads * row};
  output.lse = static_cast<float*>(lse.get());

  std::vector<Row> rows;
  CudaIndexBuffers batch_index;
  std::vector<CudaIndexBuffers> own(lengths.size());
  if (equal) {
    Check(UploadIndex(MakeFixedIndex(dense, batch, heads, longest, 1).View(), &batch_index));
    rows.push_back({"a batch", [&] { Check(AttendCuda(problem, batch_index.view, output, nullptr)); }});
  } else {
    for (size_t s = 0; s < lengths.size(); ++s) Check(UploadIndex(views[s], &own[s]));
    rows.push_back({"one by one", [&] {
                      for (size_t s = 0; s < lengths.size(); ++s) {
                        AttentionProblem one = problem;
                        one.batch = 1;
                        one.seq_q = one.seq_k = lengths[s];
                        const auto at = [&](const StridedTensor<const void>& tensor) -> StridedTensor<const void> {
                          return {static_cast<const uint16_t*>(tensor.data) + begins[s] * tensor.row_stride, 0,
                                  tensor.head_stride, tensor.row_stride};
                        };
                        one.q = at(problem.q);
                        one.k = at(problem.k);
                        one.v = at(problem.v);
                        AttentionOutput out = output;
                        out.o.data = static_cast<uint16_t*>(output.o.data) + begins[s] * output.o.row_stride;
                        out.lse = nullptr;
                        Check(AttendCuda(one, own[s].view, out, nullptr));
                      }
                    }});
  }
  const DeviceMemory begin = Upload(begins);
  PackedSequences contiguous;
  contiguous.q_begin = contiguous.k_begin = static_cast<const int32_t*>(begin.get());
  contiguous.total_q = contiguous.total_k = total;
  AttentionProblem flat = problem;
  rows.push_back({"packed", [&] { Check(AttendPackedCuda(flat, contiguous, index.view, output, nullptr)); }});

  struct Paged {
    std::string name;
    AttentionProblem problem;
    PackedSequences sequences;
    DeviceMemory table;
  };
  std::vector<Paged> paged;
  std::mt19937 random(3);
  struct Pages {
    int32_t size;
    bool in_order;
  };
  for (const auto [page_size, in_order] :
       {Pages{16, false}, Pages{32, false}, Pages{64, false}, Pages{128, false}, Pages{256, false}, Pages{256, true}}) {
    const auto filled = [page_size](int32_t keys) { return (keys + page_size - 1) / page_size; };
    int32_t used = 0;
    for (const int32_t length : lengths) used += filled(length);
    std::vector<int32_t> pages(static_cast<size_t>(used));
    std::iota(pages.begin(), pages.end(), 0);
    if (!in_order) std::shuffle(pages.begin(), pages.end(), random);
    std::vector<int32_t> table(static_cast<size_t>(batch * filled(longest)), 0);
    size_t next = 0;
    for (int32_t s = 0; s < batch; ++s) {
      for (int32_t page = 0; page < filled(lengths[static_cast<size_t>(s)]); ++page) {
        table[static_cast<size_t>(s * filled(longest) + page)] = pages[next++];
      }
    }
    Paged one{"pages of " + std::to_string(page_size) + (in_order ? ", in order" : ""), problem, contiguous,
              Upload(table)};
    const auto kv = [&, page_size](const DeviceMemory& memory) -> StridedTensor<const void> {
      return {memory.get(), page_size * kv_heads * row, row, kv_heads * row};
    };
    one.problem.k = kv(k);
    one.problem.v = kv(v);
    one.sequences.page_table = static_cast<const int32_t*>(one.table.get());
    one.sequences.pages_per_sequence = filled(longest);
    one.sequences.page_size = page_size;
    one.sequences.num_pages = used;
    paged.push_back(std::move(one));
  }
  for (const Paged& one : paged) {
    rows.push_back(
        {one.name, [&] { Check(AttendPackedCuda(one.problem, one.sequences, index.view, output, nullptr)); }});
  }
  TimeInTurn(&rows, repeats);
  Print(work, &rows, 4.0 * head_dim * static_cast<double>(pairs));
}

int Main(int argc, char** argv) {
  int repeats = 15;
  int32_t head_dim = 128;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--repeats") == 0) repeats = std::max(1, std::atoi(argv[i + 1]));
    if (std::strcmp(argv[i], "--head-dim") == 0) head_dim = std::atoi(argv[i + 1]);
  }
  CudaDeviceInfo info;
  Check(QueryCudaDevice(0, &info));
  std::printf("%s, head_dim %d, %d repeats\n", info.name.c_str(), head_dim, repeats);
  Measure("1 x 16384", {16384}, 32, 32, head_dim, repeats);
  Measure("4 x 8192", std::vector<int32_t>(4, 8192), 32, 32, head_dim, repeats);
  Measure("4 x 8192, 32:8", std::vector<int32_t>(4, 8192), 32, 8, head_dim, repeats);
  Measure("16 x 2048", std::vector<int32_t>(16, 2048), 32, 32, head_dim, repeats);
  Measure("64 to 12000", {64, 12000, 511, 3000, 1, 7777, 1024, 130, 4095, 2048, 900, 6000}, 32, 32, head_dim, repeats);
  return 0;
}

}  // namespace
}  // namespace headscope::kernels

int main(int argc, char** argv) {
  return headscope::kernels::Main(argc, argv);
}
