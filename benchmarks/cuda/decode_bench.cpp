// SPDX-License-Identifier: Apache-2.0
// Times decode steps over selections beside the dense one (bf16, head_dim 128): random pages and tokens, and Quest;
// dense and paged steps of heads with sinks; and the upkeep of what Quest and SparQ keep, of a whole cache and a token.
// Cold L2 (512 MiB written before each run), CUDA events, medians, the rows in an order shuffled in each round.
//
//   decode_bench [--shape BATCH:QO_HEADS:KV_HEADS:TOKENS]... [--keep TOKENS] [--repeats N] [--clean-l2 1]
//
// --clean-l2 1: other data is read between those writes and the run, so that L2 holds nothing that has to be written
// back beside the run's reads: a model's step is like that, whose weights were read before.
//
// "of copy" is the bytes that a row has to move, over its time and the rate of a device copy (read and written bytes).
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cuda_reference.h"
#include "kernels/contiguous.h"
#include "kernels/cuda_decode.h"
#include "kernels/cuda_decode_selection.h"
#include "kernels/cuda_quest.h"
#include "kernels/cuda_resources.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kHeadDim = 128;

void Check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "decode_bench: %s\n", status.message().c_str());
  std::exit(1);
}

DeviceMemory Allocate(int64_t bytes) {
  DeviceMemory memory;
  Check(AllocateOnDevice(std::max<int64_t>(bytes, 16), "a benchmark", &memory));
  return memory;
}

struct Row {
  std::string name;
  double bytes;
  std::function<void()> run;
  std::vector<double> us = {};
};

void TimeInTurn(int repeats, bool clean_l2, std::vector<Row>* rows) {
  constexpr size_t kFlushBytes = size_t{512} << 20;
  const DeviceMemory flush = Allocate(kFlushBytes);
  CudaEvent start, stop;
  Check(MakeEvent(&start));
  Check(MakeEvent(&stop));
  std::mt19937 random(1);
  std::vector<size_t> order(rows->size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (int round = 0; round <= repeats; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) {
      cudaMemsetAsync(flush.get(), round, kFlushBytes, nullptr);
      if (clean_l2) {
        testing::ReadOnce(flush.get(), static_cast<const char*>(flush.get()) + kFlushBytes / 2, kFlushBytes / 2);
      }
      cudaEventRecord(start.get());
      (*rows)[i].run();
      cudaEventRecord(stop.get());
      Check(CudaStatus(cudaEventSynchronize(stop.get()), "a timed run"));
      double ms = 0;
      Check(MillisecondsBetween(start, stop, &ms));
      if (round > 0) (*rows)[i].us.push_back(1e3 * ms);
    }
  }
}

struct Shape {
  int32_t batch, num_qo_heads, num_kv_heads, seq_k;
};

// Every list names so many pages, drawn at random.
DecodeSelection RandomPages(const Shape& shape, int32_t page_size, int32_t keep) {
  DecodeSelection selection;
  selection.batch = shape.batch;
  selection.num_qo_heads = shape.num_qo_heads;
  selection.num_kv_heads = shape.num_kv_heads;
  selection.page_size = page_size;
  selection.page_begin.push_back(0);
  std::mt19937 random(2);
  std::vector<int32_t> pages(static_cast<size_t>(shape.seq_k / page_size));
  std::iota(pages.begin(), pages.end(), 0);
  const auto picks = static_cast<std::ptrdiff_t>(std::min(keep, shape.seq_k) / page_size);
  for (int32_t list = 0; list < shape.batch * shape.num_kv_heads; ++list) {
    std::sample(pages.begin(), pages.end(), std::back_inserter(selection.pages), picks, random);
    selection.page_begin.push_back(static_cast<int64_t>(selection.pages.size()));
  }
  return selection;
}

void Measure(const Shape& shape, int32_t keep, int repeats, bool clean_l2) {
  const int64_t lists = int64_t{shape.batch} * shape.num_kv_heads, rows_q = int64_t{shape.batch} * shape.num_qo_heads;
  const int64_t cache = lists * shape.seq_k * kHeadDim;
  const DeviceMemory q = Allocate(rows_q * kHeadDim * 2), k = Allocate(cache * 2), v = Allocate(cache * 2);
  const DeviceMemory o = Allocate(rows_q * kHeadDim * 2), lse = Allocate(rows_q * 4);
  testing::FillNormal(DType::kBFloat16, q.get(), rows_q * kHeadDim, 1.0f, 1);
  testing::FillNormal(DType::kBFloat16, k.get(), cache, 1.0f, 2);
  testing::FillNormal(DType::kBFloat16, v.get(), cache, 1.0f, 3);
  AttentionProblem problem;
  problem.batch = shape.batch;
  problem.num_qo_heads = shape.num_qo_heads;
  problem.num_kv_heads = shape.num_kv_heads;
  problem.head_dim = kHeadDim;
  problem.seq_q = 1;
  problem.seq_k = shape.seq_k;
  problem.first_position = shape.seq_k - 1;
  problem.dtype = DType::kBFloat16;
  SetContiguousTensors(q.get(), k.get(), v.get(), &problem);
  const AttentionOutput output{ContiguousTensor<void>(o.get(), shape.num_qo_heads, 1, kHeadDim),
                               static_cast<float*>(lse.get())};
  std::vector<Row> rows;
  const DeviceMemory copied = Allocate(cache * 2);
  rows.push_back({"copy of K", 4.0 * static_cast<double>(cache), [&] {
                    cudaMemcpyAsync(copied.get(), k.get(), static_cast<size_t>(cache) * 2, cudaMemcpyDeviceToDevice);
                  }});
  // Nothing that attends to all keys can take less.
  rows.push_back(
      {"reading K and V", 4.0 * static_cast<double>(cache), [&] { testing::ReadOnce(k.get(), v.get(), cache * 2); }});
  const size_t dense_bytes = DecodeWorkspaceBytes(problem, {});
  const DeviceMemory dense_workspace = Allocate(static_cast<int64_t>(dense_bytes));
  cudaMemset(dense_workspace.get(), 0, dense_bytes);
  rows.push_back({"all keys", 4.0 * static_cast<double>(cache),
                  [&] { Check(DecodeDenseCuda(problem, output, dense_workspace.get(), dense_bytes, nullptr)); }});
  AttentionProblem with_sinks = problem;
  const std::vector<float> sinks(static_cast<size_t>(shape.num_qo_heads), 1.0f);
  with_sinks.sinks = sinks.data();
  rows.push_back({"all keys, sinks", 4.0 * static_cast<double>(cache),
                  [&] { Check(DecodeDenseCuda(with_sinks, output, dense_workspace.get(), dense_bytes, nullptr)); }});
  const double kept_bytes = 4.0 * static_cast<double>(lists) * std::min(keep, shape.seq_k) * kHeadDim;
  struct Selected {
    CudaSelectionBuffers buffers;
    DeviceMemory workspace;
    size_t bytes = 0;
  };
  std::vector<std::unique_ptr<Selected>> selected;
  for (const int32_t page_size : {16, 64, 1}) {
    auto one = std::make_unique<Selected>();
    Check(UploadSelection(problem, RandomPages(shape, page_size, keep), &one->buffers));
    one->bytes = SelectionWorkspaceBytes(problem, one->buffers.view);
    one->workspace = Allocate(static_cast<int64_t>(one->bytes));
    rows.push_back(
        {"pages of " + std::to_string(page_size), kept_bytes, [&problem, &output, at = one.get()] {
           Check(AttendSelectionCuda(problem, at->buffers.view, output, at->workspace.get(), at->bytes, nullptr));
         }});
    if (page_size == 16) {
      rows.push_back(
          {"pages of 16, sinks", kept_bytes, [&with_sinks, &output, at = one.get()] {
             Check(AttendSelectionCuda(with_sinks, at->buffers.view, output, at->workspace.get(), at->bytes, nullptr));
           }});
    }
    selected.push_back(std::move(one));
  }
  const QuestCudaOptions quest{.budget = keep};
  const int32_t num_pages = NumQuestPages(problem, quest);
  const int64_t of_list = int64_t{num_pages} * 2 * kHeadDim;
  const DeviceMemory bounds = Allocate(lists * of_list * 2);
  const CudaPageBounds page_bounds{bounds.get(), of_list};
  const double bounds_bytes = 2.0 * static_cast<double>(lists * of_list);
  const auto quest_row = [&](const char* name, QuestCudaOptions options, double bytes) {
    const size_t needed = QuestWorkspaceBytes(problem, options);
    const auto workspace = std::make_shared<DeviceMemory>(Allocate(static_cast<int64_t>(needed)));
    rows.push_back(
        {name, bytes, [&problem, &output, page_bounds, options, workspace, needed] {
           Check(DecodeQuestCuda(problem, options, page_bounds, output, nullptr, workspace->get(), needed, nullptr));
         }});
  };
  rows.push_back({"bounds of all pages", 2.0 * static_cast<double>(cache) + bounds_bytes,
                  [&] { Check(UpdatePageBoundsCuda(problem, quest.page_size, 0, page_bounds, nullptr)); }});
  rows.back().run();
  rows.push_back({"bounds, a token more", 0.0, [&] {
                    Check(UpdatePageBoundsCuda(problem, quest.page_size, problem.seq_k - 1, page_bounds, nullptr));
                  }});
  const int64_t stride = (int64_t{shape.seq_k} + 63) / 64 * 64;
  const DeviceMemory components = Allocate(lists * kHeadDim * stride * 2), mean = Allocate(lists * kHeadDim * 4);
  const TransposedKeys transposed{components.get(), shape.num_kv_heads * kHeadDim * stride, kHeadDim * stride, stride};
  const size_t upkeep_bytes = UpdateSparqWorkspaceBytes(problem);
  const DeviceMemory upkeep = Allocate(static_cast<int64_t>(upkeep_bytes));
  const auto sparq_row = [&](const char* name, int32_t first_token, double bytes) {
    rows.push_back({name, bytes, [&, first_token] {
                      Check(UpdateSparqCuda(problem, first_token, transposed, static_cast<float*>(mean.get()),
                                            upkeep.get(), upkeep_bytes, nullptr));
                    }});
  };
  sparq_row("SparQ's copy and mean", 0, 6.0 * static_cast<double>(cache));
  sparq_row("the same, a token more", problem.seq_k - 1, 0.0);
  quest_row("quest", quest, bounds_bytes + kept_bytes);
  quest_row("quest, one page", {.budget = 1}, bounds_bytes);
  TimeInTurn(repeats, clean_l2, &rows);

  std::printf("batch %d, heads %d:%d, %d tokens, %d kept\n", shape.batch, shape.num_qo_heads, shape.num_kv_heads,
              shape.seq_k, keep);
  double copy_rate = 0, dense_us = 0;
  for (Row& row : rows) {
    std::sort(row.us.begin(), row.us.end());
    const double us = row.us[row.us.size() / 2], rate = row.bytes / us;
    if (&row == &rows[0]) copy_rate = rate;
    if (row.name == "all keys") dense_us = us;
    std::printf("  %-22s %9.1f us (least %9.1f) %7.0f GB/s, of copy %5.2f, dense / this %5.2f\n", row.name.c_str(), us,
                row.us.front(), rate / 1e3, rate / copy_rate, dense_us / us);
  }
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  std::vector<Shape> shapes;
  int32_t keep = 4096;
  int repeats = 15;
  bool clean_l2 = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    Shape shape{};
    if (option == "--shape" && std::sscanf(argv[i + 1], "%d:%d:%d:%d", &shape.batch, &shape.num_qo_heads,
                                           &shape.num_kv_heads, &shape.seq_k) == 4) {
      shapes.push_back(shape);
    } else if (option == "--keep") {
      keep = std::atoi(argv[i + 1]);
    } else if (option == "--clean-l2") {
      clean_l2 = std::atoi(argv[i + 1]) != 0;
    } else if (option == "--repeats") {
      repeats = std::max(1, std::atoi(argv[i + 1]));
    } else {
      std::fprintf(stderr, "decode_bench: %s %s: --shape B:H:K:S, --keep TOKENS, --repeats N or --clean-l2 1\n",
                   argv[i], argv[i + 1]);
      return 2;
    }
  }
  if (shapes.empty()) shapes = {{16, 32, 8, 32768}, {1, 32, 8, 32768}, {1, 32, 8, 131072}};
  for (const Shape& shape : shapes) Measure(shape, keep, repeats, clean_l2);
  return 0;
}

}  // namespace
}  // namespace headscope::kernels

int main(int argc, char** argv) {
  return headscope::kernels::Main(argc, argv);
}
