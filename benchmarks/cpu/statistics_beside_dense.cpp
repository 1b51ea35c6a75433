// SPDX-License-Identifier: Apache-2.0
// statistics_beside_dense TRACE.h5 [THREADS]: what all default statistics of every head cost beside dense attention of
// the same heads, head by head in turn, so that what else the machine does meets both. Times are those of the wall
// clock, and the processor's, which others' work on the machine lengthens little.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "analysis/statistics.h"
#include "base/check_status.h"
#include "data/trace_reader.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"
#include "kernels/method.h"

namespace headscope::analysis {
namespace {

struct Seconds {
  double wall = 0, processor = 0;  // of all threads
};

void AddSecondsOf(const std::function<void()>& work, Seconds* seconds) {
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t clock = std::clock();
  work();
  seconds->processor += static_cast<double>(std::clock() - clock) / CLOCKS_PER_SEC;
  seconds->wall += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void Measure(const std::string& path, int32_t num_threads) {
  const data::TraceReader trace(path);
  Seconds dense, statistics;
  const std::vector<HeadId> heads = RecordedHeads(trace);
  const kernels::PrefillMethod& method = kernels::PrefillBaseline();
  kernels::RunOptions run;
  run.num_threads = num_threads;
  StatisticsOptions options;
  options.num_threads = num_threads;
  for (const HeadId id : heads) {
    const HeadTensorsPtr head = LoadHead(trace, id);
    kernels::AttentionProblem problem = head->Problem();
    problem.window = head->window;
    kernels::SparseIndex index;
    CheckStatus(method.Select(problem, kernels::ParameterValues(method.spec()), run, &index), path);
    std::vector<float> o(static_cast<size_t>(head->num_rows * head->ValueDim()));
    const kernels::AttentionOutput output{
        kernels::ContiguousTensor<void>(o.data(), 1, head->num_rows, head->ValueDim()), nullptr};
    AddSecondsOf([&] { CheckStatus(kernels::AttendCpu(problem, index.View(), output, run), path); }, &dense);
    AddSecondsOf([&] { static_cast<void>(ComputeStatistics(*head, options)); }, &statistics);
  }
  std::printf("%zu heads, %lld tokens\n", heads.size(), static_cast<long long>(trace.num_tokens()));
  const auto print = [](const char* clock, double of_dense, double of_statistics) {
    std::printf("%s: dense %.2f s, statistics %.2f s, %.2f times dense\n", clock, of_dense, of_statistics,
                of_statistics / of_dense);
  };
  print("wall clock", dense.wall, statistics.wall);
  print("processor", dense.processor, statistics.processor);
}

}  // namespace
}  // namespace headscope::analysis

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "statistics_beside_dense TRACE.h5 [THREADS]\n");
    return 2;
  }
  try {
    headscope::analysis::Measure(argv[1], argc > 2 ? std::atoi(argv[2]) : 0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "statistics_beside_dense: %s\n", error.what());
    return 1;
  }
  return 0;
}
