// SPDX-License-Identifier: Apache-2.0
// AttendCpu beside LibTorch's dense attention, in one run.
//
// Method: every round times LibTorch dense, our dense and our sparse cases one after the other, so that a change of the
// machine's speed meets all of them; the first round is not counted. Figures are medians over the rounds; "spread" is
// the median absolute deviation in per cent. "per pair" is LibTorch's time per causal pair over our time per kept pair:
// 1 means that sparsity costs nothing, less is the sparsity's tax.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/device.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"
#include "kernels/method.h"
#include "kernels/sparse_index.h"
#include "kernels/start_cores.h"
#include "model/reference_attention.h"

namespace {

using namespace headscope::kernels;
using headscope::model::MakeReferenceAttention;

struct Shape {
  int32_t num_qo_heads;
  int32_t num_kv_heads;
  int32_t seq_len;
  int32_t head_dim;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double SpreadInPercent(const std::vector<double>& values) {
  const double median = Median(values);
  std::vector<double> deviations;
  for (const double value : values) deviations.push_back(std::abs(value - median));
  return 100.0 * Median(deviations) / median;
}

double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Require(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "cpu_attention_benchmark: %s\n", status.message().c_str());
  std::exit(1);
}

// Calls fill(builder, first row of the tile) for each tile of `tile_rows` rows.
SparseIndex MakeIndex(const Shape& shape, int32_t tile_rows,
                      const std::function<void(SparseIndexBuilder&, int32_t)>& fill) {
  SparseIndexBuilder::Shape index_shape;
  index_shape.num_qo_heads = shape.num_qo_heads;
  index_shape.seq_q = index_shape.seq_k = shape.seq_len;
  index_shape.tile_rows = tile_rows;
  SparseIndexBuilder builder(index_shape);
  for (int32_t head = 0; head < shape.num_qo_heads; ++head) {
    for (int32_t row = 0; row < shape.seq_len; row += tile_rows) {
      fill(builder, row);
      builder.FinishList();
    }
  }
  return builder.Build();
}

// Blocks of 128 x 128 at 90 % sparsity: the diagonal, and others by chance.
SparseIndex RandomBlocks(const Shape& shape, std::mt19937& random) {
  std::bernoulli_distribution kept(0.1 - 1.0 / (shape.seq_len / 128.0));
  return MakeIndex(shape, 128, [&](SparseIndexBuilder& builder, int32_t row) {
    for (int32_t column = 0; column < row; column += 128) {
      if (kept(random)) builder.AddRange(column, column + 128);
    }
    builder.AddRange(row, row + 128);
  });
}

// What vertical-slash lists look like: half of the kept pairs in single columns, half in short unaligned runs, and the
// diagonal.
SparseIndex ColumnsAndRuns(const Shape& shape, std::mt19937& random) {
  return MakeIndex(shape, 128, [&](SparseIndexBuilder& builder, int32_t row) {
    std::uniform_int_distribution<int32_t> place(0, std::max(row - 1, 0));
    for (int32_t i = 0; i < row / 20; ++i) builder.AddColumn(place(random));
    for (int32_t i = 0; i < row / 20 / 32; ++i) {
      const int32_t begin = place(random);
      builder.AddRange(begin, begin + 32);
    }
    builder.AddRange(row, row + 128);
  });
}

struct Case {
  std::string name;
  std::function<void()> work;
  double pairs;
  std::vector<double> seconds;
};

void Print(const Case& row, const Case& reference) {
  const double median = Median(row.seconds);
  const double per_pair = (Median(reference.seconds) / reference.pairs) / (median / row.pairs);
  std::printf("  %-34s %6.1f %% kept %10.2f ms  spread %4.1f %%  per pair %5.2f  speed-up %6.2f\n", row.name.c_str(),
              100.0 * row.pairs / reference.pairs, 1e3 * median, SpreadInPercent(row.seconds), per_pair,
              Median(reference.seconds) / median);
}

void Compare(const Shape& shape, int rounds, const RunOptions& options) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto tensor = [&](int64_t heads) {
    std::vector<float> values(static_cast<size_t>(heads * shape.seq_len * shape.head_dim));
    for (float& value : values) value = normal(random);
    return values;
  };
  const std::vector<float> q = tensor(shape.num_qo_heads), k = tensor(shape.num_kv_heads),
                           v = tensor(shape.num_kv_heads);
  std::vector<float> o(q.size());
  AttentionProblem problem;
  problem.num_qo_heads = shape.num_qo_heads;
  problem.num_kv_heads = shape.num_kv_heads;
  problem.head_dim = shape.head_dim;
  problem.seq_q = problem.seq_k = shape.seq_len;
  SetContiguousTensors(q.data(), k.data(), v.data(), &problem);
  AttentionOutput output;
  output.o = ContiguousTensor<void>(o.data(), shape.num_qo_heads, shape.seq_len, shape.head_dim);

  const auto libtorch = MakeReferenceAttention({.q = q.data(),
                                                .k = k.data(),
                                                .v = v.data(),
                                                .num_qo_heads = shape.num_qo_heads,
                                                .num_kv_heads = shape.num_kv_heads,
                                                .head_dim = shape.head_dim,
                                                .seq_len = shape.seq_len},
                                               headscope::kCpu, options.num_threads);
  const SparseIndex dense =
      MakeIndex(shape, 128, [&](SparseIndexBuilder& builder, int32_t) { builder.AddRange(0, shape.seq_len); });
  const SparseIndex blocks = RandomBlocks(shape, random);
  const SparseIndex lines = ColumnsAndRuns(shape, random);
  const PrefillMethod* const method = FindPrefillMethod("block-sparse");
  ParameterValues values(method->spec());
  const std::string error =
      values.Set(method->spec(), "n_blocks", std::max(1, shape.seq_len / 64 / 20));  // about 10 % of the causal blocks
  if (!error.empty()) Require({StatusCode::kInvalidArgument, error});
  SparseIndex selected;
  Require(method->Select(problem, values, options, &selected));

  const auto kept = [](const SparseIndex& index) { return static_cast<double>(CountPairs(index.View()).kept); };
  const auto attend = [&](const SparseIndex& index) {
    return [&] { Require(AttendCpu(problem, index.View(), output, options)); };
  };
  std::vector<Case> cases{
      {"LibTorch dense", [&] { libtorch->Run(); }, kept(dense), {}},
      {"headscope dense", attend(dense), kept(dense), {}},
      {"128 x 128 blocks", attend(blocks), kept(blocks), {}},
      {"columns and runs of 32", attend(lines), kept(lines), {}},
      {"block-sparse: select and attend",
       [&] {
         SparseIndex index;
         Require(method->Select(problem, values, options, &index));
         Require(AttendCpu(problem, index.View(), output, options));
       },
       kept(selected),
       {}},
  };
  for (int round = 0; round <= rounds; ++round) {
    for (Case& c : cases) {
      const double seconds = Seconds(c.work);
      if (round > 0) c.seconds.push_back(seconds);
    }
  }
  // The two dense results must agree, or the times compare different things.
  cases[1].work();
  std::vector<float> reference(o.size());
  libtorch->ReadOutput(int64_t{shape.num_qo_heads} * shape.seq_len, reference.data());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < o.size(); ++i) {
    difference += std::pow(static_cast<double>(o[i]) - static_cast<double>(reference[i]), 2);
    norm += std::pow(static_cast<double>(reference[i]), 2);
  }
  std::printf(
      "%d query heads, %d KV heads, %d tokens, head_dim %d, %d threads; relative L2 of headscope dense to LibTorch: "
      "%.1e\n",
      shape.num_qo_heads, shape.num_kv_heads, shape.seq_len, shape.head_dim, options.num_threads,
      std::sqrt(difference / norm));
  for (const Case& c : cases) Print(c, cases[0]);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"AttendCpu beside LibTorch's dense attention: medians over interleaved rounds."};
  int rounds = 7;
  RunOptions options;
  options.num_threads = headscope::kernels::NumAllowedCores();
  std::vector<int> lengths{4096, 16384};
  bool all_heads = true;
  app.add_option("--rounds", rounds, "timed rounds")->check(CLI::Range(1, 1000));
  app.add_option("--threads", options.num_threads, "threads of both")->check(CLI::Range(1, 1024));
  app.add_option("--lengths", lengths, "tokens, multiples of 128")->check(CLI::Range(256, 131072));
  app.add_flag("!--one-head", all_heads, "leave out the shapes of 8 heads over 4 KV heads");
  CLI11_PARSE(app, argc, argv);
  for (const int length : lengths) {
    Compare({1, 1, length, 64}, rounds, options);
    if (all_heads) Compare({8, 4, length, 64}, rounds, options);
    Compare({1, 1, length, 128}, rounds, options);
  }
}
