// SPDX-License-Identifier: Apache-2.0
// The score primitive on one core: GFLOP/s, and the share of the peak that the same core reaches with multiply-adds in
// registers.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <iostream>
#include <random>
#include <vector>

#include "kernels/contiguous.h"
#include "kernels/cpu_scores.h"
#include "peak_flops.h"

namespace {

using headscope::kernels::DType;
using headscope::kernels::PackedKeys;

double peak_flops = 0;

std::vector<float> RandomFloats(int64_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

// Arguments: head_dim, rows, columns.
void ScoreBlock(benchmark::State& state) {
  const auto head_dim = static_cast<int32_t>(state.range(0));
  const auto rows = static_cast<int32_t>(state.range(1));
  const auto columns = static_cast<int32_t>(state.range(2));
  const std::vector<float> q = RandomFloats(int64_t{rows} * head_dim);
  const std::vector<float> k = RandomFloats(int64_t{columns} * head_dim);
  const PackedKeys keys(k.data(), DType::kFloat32, head_dim, columns, head_dim);
  std::vector<float> scores(static_cast<size_t>(rows) * static_cast<size_t>(columns));
  for (auto _ : state) {
    headscope::kernels::ScoreBlock(q.data(), head_dim, rows, keys, 0, columns, 0.125f, 0.0f, scores.data(), columns);
    benchmark::ClobberMemory();
  }
  const double flops = 2.0 * rows * columns * head_dim * static_cast<double>(state.iterations());
  state.counters["FLOP/s"] = benchmark::Counter(flops, benchmark::Counter::kIsRate);
  state.counters["of_peak"] = benchmark::Counter(flops / peak_flops, benchmark::Counter::kIsRate);
}
BENCHMARK(ScoreBlock)
    ->ArgNames({"head_dim", "rows", "columns"})
    ->Args({64, 64, 512})
    ->Args({128, 64, 512})
    ->Args({128, 256, 256})
    ->Args({64, 64, 16384})
    ->Args({128, 1, 16384});

void PackKeys(benchmark::State& state) {
  const auto head_dim = static_cast<int32_t>(state.range(0));
  const int32_t seq_k = 16384;
  const std::vector<float> k = RandomFloats(int64_t{seq_k} * head_dim);
  for (auto _ : state)
    benchmark::DoNotOptimize(PackedKeys(k.data(), DType::kFloat32, head_dim, seq_k, head_dim).data());
  state.SetBytesProcessed(state.iterations() * seq_k * head_dim * 4);
}
BENCHMARK(PackKeys)->ArgName("head_dim")->Arg(64)->Arg(128);

// One row of scores: maximum, then exponentials and their sum. The refill with scores is not timed apart; it is a copy.
void SoftmaxRow(benchmark::State& state) {
  const int64_t columns = state.range(0);
  const std::vector<float> scores = RandomFloats(columns);
  std::vector<float> row = scores;
  for (auto _ : state) {
    row = scores;
    const float maximum = headscope::kernels::MaxOf(row.data(), columns);
    benchmark::DoNotOptimize(headscope::kernels::ExpInPlace(row.data(), columns, maximum));
  }
  state.SetItemsProcessed(state.iterations() * columns);
}
BENCHMARK(SoftmaxRow)->ArgName("columns")->Arg(512)->Arg(16384);

// LSE of the last 256 rows of a head, on one thread: what a statistic costs at least.
void RowLse(benchmark::State& state) {
  const auto head_dim = static_cast<int32_t>(state.range(0));
  headscope::kernels::AttentionProblem problem;
  problem.num_qo_heads = problem.num_kv_heads = 1;
  problem.head_dim = head_dim;
  problem.seq_q = 256;
  problem.seq_k = 16384;
  problem.first_position = problem.seq_k - problem.seq_q;
  const std::vector<float> q = RandomFloats(int64_t{problem.seq_q} * head_dim);
  const std::vector<float> k = RandomFloats(int64_t{problem.seq_k} * head_dim);
  headscope::kernels::SetContiguousTensors(q.data(), k.data(), nullptr, &problem);
  std::vector<float> lse(static_cast<size_t>(problem.seq_q));
  for (auto _ : state) {
    if (!headscope::kernels::RowLse(problem, 0, {.num_threads = 1}, lse.data()).ok())
      state.SkipWithError("RowLse failed");
  }
  const double flops =
      2.0 * head_dim * problem.seq_q * (problem.seq_k - problem.seq_q / 2.0) * static_cast<double>(state.iterations());
  state.counters["of_peak"] = benchmark::Counter(flops / peak_flops, benchmark::Counter::kIsRate);
}
BENCHMARK(RowLse)->ArgName("head_dim")->Arg(64)->Arg(128);

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  peak_flops = headscope::benchmarks::MeasurePeakFlops();
  std::cout << "peak of one core (" << headscope::benchmarks::PeakTarget()
            << ", multiply-adds in registers): " << peak_flops / 1e9 << " GFLOP/s\n";
  benchmark::RunSpecifiedBenchmarks();
}
