// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <new>

#include "base/check_status.h"
#include "base/stopwatch.h"
#include "bench/bench_device.h"
#include "bench/host_decode_step.h"
#include "bench/placed_problem.h"
#include "bench/sustain.h"
#include "kernels/cpu_executor.h"
#include "kernels/cpu_memory.h"
#include "kernels/cpu_sparq.h"
#include "kernels/estimated_top_tokens.h"
#include "kernels/sparq_setup.h"
#include "kernels/start_cores.h"
#include "kernels/step_elements.h"

namespace headscope::app::bench {
namespace {

using kernels::DType;

// More than a core's own caches, and than the last level of many machines; each repeat writes all of it.
constexpr int64_t kCacheFlushBytes = int64_t{64} << 20;

struct FreeAligned {
  void operator()(char* p) const { ::operator delete[](p, std::align_val_t{64}); }
};

class CpuDevice : public BenchDevice {
 public:
  explicit CpuDevice(const DeviceOptions& options)
      : options_{.num_threads = options.num_threads > 0 ? options.num_threads : kernels::NumAllowedCores(),
                 .stop = options.stop} {}

  std::string name() const override { return "CPU, " + std::to_string(options_.num_threads) + " threads"; }
  Device device() const override { return kCpu; }
  std::string cache_policy() const override {
    return std::to_string(kCacheFlushBytes >> 20) +
           " MiB written before each timed run; decode steps walk over as much K and V";
  }

  std::shared_ptr<void> Allocate(int64_t bytes) override {
    return std::shared_ptr<char>(new (std::align_val_t{64}) char[static_cast<size_t>(bytes)], FreeAligned());
  }
  void Upload(const void* host, int64_t bytes, void* device) override {
    std::memcpy(device, host, static_cast<size_t>(bytes));
  }
  void Download(const void* device, int64_t bytes, void* host) override {
    std::memcpy(host, device, static_cast<size_t>(bytes));
  }
  bool is_host() const override { return true; }
  DType OutputType(DType) const override { return DType::kFloat32; }
  int64_t walk_bytes() const override { return kCacheFlushBytes; }

  std::function<void()> Read(const PlacedProblem& placed, int64_t bytes) override {
    const kernels::AttentionProblem& problem = placed.problem;
    const int64_t rows = int64_t{problem.batch} * problem.num_kv_heads * problem.seq_k;
    const int64_t of_k = rows * problem.head_dim * kernels::SizeOf(problem.dtype);
    const int64_t of_v = rows * problem.ValueDim() * kernels::SizeOf(problem.dtype);
    return [this, &placed, bytes, of_k, of_v] {
      uint64_t parity = 0;
      for (int64_t left = bytes; left > 0; left -= of_k + of_v) {
        CheckStatus(kernels::ReadCpu(placed.problem.k.data, std::min(left, of_k), options_, &parity));
        if (left > of_k)
          CheckStatus(kernels::ReadCpu(placed.problem.v.data, std::min(left - of_k, of_v), options_, &parity));
      }
    };
  }

  double Milliseconds(const std::function<void()>& work) override {
    flush_.assign(static_cast<size_t>(kCacheFlushBytes), static_cast<char>(++flush_value_));
    return 1e3 * SecondsOf(work);
  }

  double SustainedMilliseconds(const std::function<void()>& work, double seconds,
                               const std::stop_token& stop) override {
    return Sustain(seconds, stop, [&](int runs) {
      const Stopwatch watch;
      for (int i = 0; i < runs; ++i) work();
      return watch.Milliseconds();
    });
  }

  PrefillWork Attend(const PlacedProblem& placed, kernels::SparseIndex index) override {
    const auto shared = std::make_shared<kernels::SparseIndex>(InsideWindow(placed, std::move(index)));
    PrefillWork work;
    work.index = *shared;
    work.attend = [this, &placed, shared] {
      CheckStatus(kernels::AttendCpu(placed.problem, shared->View(), placed.output, options_));
    };
    return work;
  }

  PrefillWork SelectAndAttend(const PlacedProblem& placed, const kernels::PrefillMethod& method,
                              const kernels::ParameterValues& values) override {
    const auto index = std::make_shared<kernels::SparseIndex>();
    PrefillWork work;
    work.select = [this, &placed, &method, values, index] {
      kernels::SparseIndex made;
      CheckStatus(method.Select(placed.problem, values, options_, &made));
      *index = InsideWindow(placed, std::move(made));
    };
    work.attend = [this, &placed, index] {
      CheckStatus(kernels::AttendCpu(placed.problem, index->View(), placed.output, options_));
    };
    work.select();
    work.index = *index;
    return work;
  }

  std::vector<DecodeWork> Decode(const PlacedProblem& placed, const kernels::DecodeMethod& method,
                                 const kernels::ParameterValues& values) override {
    if (const auto sparq = kernels::EstimatedTopTokensOf(method, values, placed.problem);
        sparq && kernels::SparqHasTwoCopies(values)) {
      return SparqWork(placed, *sparq);
    }
    const auto step = std::make_shared<HostDecodeStep>(method, values, placed, placed.problem, options_);
    const kernels::DecodeSelection& selection = step->Select();
    DecodeWork work;
    work.variant = step->Variant();
    if (step->NeedsPreparing()) work.prepare = [step] { step->Prepare(); };
    // A dense step has nothing to select: its list is that of the step before and one token more.
    if (!method.spec().baseline) work.select = [step] { step->Select(); };
    work.attend = [this, &placed, step] {
      CheckStatus(kernels::DecodeCpu(placed.problem, step->selection(), placed.output, options_));
    };
    work.bytes_moved = StepBytes(placed.problem, selection.elements_moved);
    if (!step->ChoosesFromPrompt()) return {work};
    const auto prompt = std::make_shared<HostDecodeStep>(method, values, placed, placed.problem, options_);
    return {work, ChoiceFromPrompt(placed.problem, [prompt] { prompt->ChooseFromPrompt(); })};
  }

 private:
  // What SparQ keeps beside the cache.
  struct SparqState {
    std::vector<std::byte> memory;
    kernels::TransposedKeys keys;
    std::vector<float> mean;
    std::vector<float> grown;  // a mean of its own for timing the upkeep
  };

  template <typename Select>
  DecodeWork WorkOf(const PlacedProblem& placed, Select select) {
    DecodeWork work;
    const auto selection = std::make_shared<kernels::DecodeSelection>();
    work.select = [select, selection] {
      kernels::DecodeSelection made;
      CheckStatus(select(&made));
      *selection = std::move(made);
    };
    work.attend = [this, &placed, selection] {
      CheckStatus(kernels::DecodeCpu(placed.problem, *selection, placed.output, options_));
    };
    work.select();
    return work;
  }

  std::vector<DecodeWork> SparqWork(const PlacedProblem& placed, const kernels::SparqCudaOptions& sparq) {
    const kernels::AttentionProblem& problem = placed.problem;
    const auto state = std::make_shared<SparqState>();
    CheckStatus(kernels::TransposeKeysCpu(problem, options_, &state->memory, &state->keys));
    state->mean.resize(static_cast<size_t>(int64_t{problem.batch} * problem.num_kv_heads * problem.ValueDim()));
    CheckStatus(kernels::MeanValueCpu(problem, options_, state->mean.data()));
    state->grown = state->mean;
    const auto work_of = [&](const char* variant, bool two_copies) {
      DecodeWork work = WorkOf(placed, [this, &placed, state, sparq, two_copies](kernels::DecodeSelection* made) {
        return kernels::SelectSparqCpu(placed.problem, sparq, two_copies ? state->keys : kernels::TransposedKeys{},
                                       state->mean.data(), options_, made);
      });
      work.variant = variant;
      work.bytes_moved = StepBytes(problem, kernels::ElementsOf(sparq, problem, two_copies).moved);
      return work;
    };
    DecodeWork append;
    append.variant = "append a token";
    append.upkeep = true;
    append.attend = [&placed, state, with_mean = sparq.mean_value] {
      CheckStatus(kernels::AppendTokenCpu(placed.problem, state->keys, with_mean ? state->grown.data() : nullptr));
    };
    append.bytes_moved = kernels::UpdateBytes(sparq, problem, problem.seq_k - 1);
    return {work_of("two copies of K", true), work_of("one copy of K", false), append};
  }

  kernels::RunOptions options_;
  std::vector<char> flush_;
  unsigned flush_value_ = 0;
};

}  // namespace

int64_t StepBytes(const kernels::AttentionProblem& problem, int64_t elements_moved) {
  const int64_t of_step = elements_moved - (problem.head_dim + problem.ValueDim());
  return int64_t{problem.batch} * problem.num_kv_heads * of_step * kernels::SizeOf(problem.dtype);
}

DecodeWork ChoiceFromPrompt(const kernels::AttentionProblem& step, std::function<void()> choose) {
  DecodeWork work;
  work.variant = "choose from the prompt";
  work.upkeep = true;
  work.attend = std::move(choose);
  work.bytes_moved =
      int64_t{step.batch} * step.num_kv_heads * (step.seq_k - 1) * step.head_dim * kernels::SizeOf(step.dtype);
  return work;
}

std::unique_ptr<BenchDevice> MakeCpuDevice(const DeviceOptions& options) {
  return std::make_unique<CpuDevice>(options);
}

}  // namespace headscope::app::bench
