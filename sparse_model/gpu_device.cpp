// SPDX-License-Identifier: Apache-2.0
// A model in a GPU's memory. A prefill method's own selector for GPUs chooses there, in front of the executor, and so
// does a decode method's own step, over the model's cache and what it keeps beside it; every other choice is the CPU's,
// over a copy of Q, K and V in host memory, of which each pass brings what it added.
//
// All of it goes to the default stream, on which LibTorch runs the model as well.
#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/contiguous.h"
#include "kernels/cpu_scores.h"
#include "kernels/cuda_decode_step.h"
#include "kernels/cuda_devices.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_kept_state.h"
#include "kernels/cuda_prefill_selection.h"
#include "kernels/cuda_statistics.h"
#include "kernels/index_window.h"
#include "kernels/narrow_floats.h"
#include "model_device.h"

namespace headscope::sparse_model {
namespace {

using kernels::AttentionProblem;
using kernels::Status;
using kernels::StatusCode;

// Rows [first, first + rows) of every head, in memory of the same strides.
Status CopyRows(const kernels::StridedTensor<const void>& from, int64_t heads, int64_t first, int64_t rows, int64_t dim,
                int64_t element_bytes, int64_t to_head_stride, std::byte* to) {
  if (rows == 0) return {};
  if (rows > 1 && from.row_stride != dim)  // a single row has no next one, whatever its stride says
    return {StatusCode::kUnsupported, "rows of the model's heads do not lie side by side on the GPU"};
  return kernels::CudaStatus(
      cudaMemcpy2D(to + first * dim * element_bytes, static_cast<size_t>(to_head_stride * element_bytes),
                   static_cast<const std::byte*>(from.data) + first * from.row_stride * element_bytes,
                   static_cast<size_t>(from.head_stride * element_bytes),
                   static_cast<size_t>(rows * dim * element_bytes), static_cast<size_t>(heads), cudaMemcpyDeviceToHost),
      "copying heads from the GPU");
}

// K and V of a layer in host memory, with room for as many tokens as the model's cache has.
struct HostCache {
  const void* of = nullptr;  // the model's keys
  int64_t capacity = 0;      // tokens
  int64_t num_tokens = 0;    // that are here
  std::vector<std::byte> k, v;
};

// What a method's steps keep beside the cache of a layer.
struct KeptBeside {
  kernels::CudaKeptState state;
  int64_t pass_end = 0;  // tokens behind the layer's last pass
  // Why the first step that was not taken was not. Those after it are longer, and are not asked for until a Rewind():
  // a reason may name a number that grows with the tokens, and memory that is not there is asked for in vain.
  std::string why_not;
};

// Tokens that the cache of `problem` has room for.
int64_t CapacityOf(const AttentionProblem& problem) {
  return problem.k.row_stride == 0 ? 0 : problem.k.head_stride / problem.k.row_stride;
}

class GpuDevice final : public ModelDevice {
 public:
  explicit GpuDevice(const kernels::RunOptions& options) : options_(options) {}

  Status Begin(const model::AttentionCall& call) override {
    options_.stop = call.stop;
    for (auto found = caches_.lower_bound({call.layer, 0, 0}); found != caches_.end() && found->first[0] == call.layer;
         ++found) {
      // What was forgotten and came anew is not what was copied.
      found->second.num_tokens = std::min(found->second.num_tokens, call.num_tokens - call.num_rows);
    }
    // Nor is it what was kept beside the cache: a mean cannot go back.
    if (const auto kept = kept_.find(call.layer); kept != kept_.end()) {
      if (kept->second.pass_end != call.num_tokens - call.num_rows) kept->second.state.Forget();
      kept->second.pass_end = call.num_tokens;
    }
    if (chosen_by_ == std::this_thread::get_id() && ordinal_ == call.device_ordinal) return {};
    Status status = kernels::UseCudaDevice(call.device_ordinal);
    if (!status.ok()) return status;
    chosen_by_ = std::this_thread::get_id();
    ordinal_ = call.device_ordinal;
    return {};
  }

  // What is kept beside the cache is half of it or less, and goes before the model makes a longer one.
  void Rewind(int64_t num_tokens) override {
    for (auto& [place, cache] : caches_) cache.num_tokens = std::min(cache.num_tokens, num_tokens);
    if (num_tokens == 0) return kept_.clear();
    for (auto& [layer, kept] : kept_) {
      kept.state.Forget();
      kept.why_not.clear();
    }
  }

  Status OnHost(const model::AttentionCall& call, AttentionProblem* host) override {
    *host = ProblemOf(call);
    const int64_t bytes = SizeOf(host->dtype);
    HostCache& cache = caches_[{call.layer, host->first_kv_head, host->num_kv_heads}];
    const int64_t capacity = CapacityOf(*host);
    if (cache.of != host->k.data || cache.capacity != capacity) {
      cache = {.of = host->k.data, .capacity = capacity, .num_tokens = 0, .k = {}, .v = {}};
      cache.k.resize(static_cast<size_t>(host->num_kv_heads * capacity * host->head_dim * bytes));
      cache.v.resize(static_cast<size_t>(host->num_kv_heads * capacity * host->ValueDim() * bytes));
    }
    const int64_t rows = call.num_tokens - cache.num_tokens;
    const int64_t k_head = capacity * host->head_dim, v_head = capacity * host->ValueDim();
    Status status =
        CopyRows(host->k, host->num_kv_heads, cache.num_tokens, rows, host->head_dim, bytes, k_head, cache.k.data());
    if (status.ok())
      status = CopyRows(host->v, host->num_kv_heads, cache.num_tokens, rows, host->ValueDim(), bytes, v_head,
                        cache.v.data());
    if (!status.ok()) return status;
    cache.num_tokens = call.num_tokens;
    const int64_t q_head = call.num_rows * host->head_dim;
    q_.resize(static_cast<size_t>(host->num_qo_heads * q_head * bytes));
    status = CopyRows(host->q, host->num_qo_heads, 0, call.num_rows, host->head_dim, bytes, q_head, q_.data());
    host->q = {q_.data(), 0, q_head, host->head_dim};
    host->k = {cache.k.data(), 0, k_head, host->head_dim};
    host->v = {cache.v.data(), 0, v_head, host->ValueDim()};
    return status;
  }

  Status Prefill(const model::AttentionCall& call, const kernels::PrefillMethod& method,
                 const kernels::ParameterValues& values, kernels::SparseIndex* index, std::string* note) override {
    AttentionProblem problem = ProblemOf(call);
    const int32_t window = problem.window > 0 && problem.window < problem.seq_k ? problem.window : 0;
    problem.window = 0;  // the executors take it from the index
    kernels::CudaSelectPlan plan;
    Status selects = kernels::PlanCudaSelection(method, problem, window, values, &plan);
    if (selects.ok()) return SelectHere(call, plan, problem, values, method.spec().baseline ? nullptr : index);
    if (selects.code() != StatusCode::kUnsupported) return selects;
    if (!method.spec().baseline) *note = method.spec().name + " selects on the CPU: " + selects.message();
    AttentionProblem host = ProblemOf(call);
    if (!method.spec().IsStatic()) {  // others look at no tensor
      if (Status status = OnHost(call, &host); !status.ok()) return status;
    }
    if (Status status = method.Select(host, values, options_, index); !status.ok()) return status;
    if (window > 0) *index = kernels::CutToWindow(index->View(), window);
    kernels::CudaIndexBuffers uploaded;
    Status status = kernels::UploadIndex(index->View(), &uploaded);
    if (status.ok()) status = kernels::AttendCuda(problem, uploaded.view, OutputOf(call), /*stream=*/nullptr);
    return status;
  }

  // The Hopper kernel, where it has work for every multiprocessor. LibTorch's FlashAttention-2 splits the keys of few
  // rows over the GPU, and skips what lies before a window. Where memory is short LibTorch, which can give back what it
  // holds, attends.
  Status DenseIfFaster(const model::AttentionCall& call, bool* attended) override {
    *attended = false;
    AttentionProblem problem = ProblemOf(call);
    const bool hides_keys = problem.window > 0 && problem.window < problem.seq_k;
    if (call.type != ElementType::kBFloat16 || hides_keys || call.num_rows < kFewestRows) return {};
    // LibTorch has a current GPU of its own, which stays as it is.
    kernels::CudaDeviceScope scope;
    if (Status status = scope.Enter(call.device_ordinal); !status.ok()) return status;
    // Asked once: the caller has a device of these for each GPU.
    if (!has_fast_kernel_) {
      kernels::CudaDeviceInfo info;
      if (Status status = kernels::QueryCudaDevice(call.device_ordinal, &info); !status.ok()) return status;
      has_fast_kernel_ = info.compute_capability == 90;
    }
    if (!*has_fast_kernel_) return {};
    problem.window = 0;
    const kernels::PrefillMethod& dense = kernels::PrefillBaseline();
    const kernels::ParameterValues values(dense.spec());
    kernels::CudaSelectPlan plan;
    kernels::SparseIndexView view;
    kernels::CudaKernelChoice choice;
    Status status = kernels::PlanCudaSelection(dense, problem, /*window=*/0, values, &plan);
    if (status.ok()) status = selection_.Select(plan, problem, values, &view, /*stream=*/nullptr);
    if (status.ok()) status = kernels::ChooseCudaKernel(problem, view, OutputOf(call), &choice);
    if (status.ok() && choice.kernel != kernels::CudaKernel::kHopper) return {};
    if (status.ok()) status = kernels::AttendCuda(problem, view, OutputOf(call), /*stream=*/nullptr);
    if (status.code() == StatusCode::kUnsupported || status.code() == StatusCode::kOutOfMemory) return {};
    *attended = status.ok();
    return status;
  }

  // Where the layer's window has moved, the tokens that the method sees begin elsewhere at each step, and what is kept
  // is made anew: a pass over the window, on the GPU.
  Status DecodeByMethod(const model::AttentionCall& call, int32_t first_token, const kernels::DecodeMethod& method,
                        const kernels::ParameterValues& values, bool wants_lse, ChoosingStep* made) override {
    *made = {};
    const AttentionProblem whole = ProblemOf(call), problem = StepFrom(whole, first_token);
    KeptBeside& kept = kept_[call.layer];
    kept.pass_end = call.num_tokens;
    std::unique_ptr<kernels::CudaDecodeStep> step;
    if (kept.why_not.empty()) {
      if (const Status plan = kernels::PlanCudaDecodeStep(method, values, problem, &step); !plan.ok())
        kept.why_not = plan.message();
    }
    if (!kept.why_not.empty()) {
      made->why_not = kept.why_not;
      return {};
    }
    if (wants_lse && !step->WritesLse()) {
      made->why_not = "its GPU kernel leaves no log-sum-exp";
      return {};
    }
    int64_t capacity = CapacityOf(whole);
    if (whole.window > 0) capacity = std::min<int64_t>(capacity, whole.window);
    capacity = std::max<int64_t>(capacity, problem.seq_k);
    Status status = kept.state.BringUpTo(*step, problem, static_cast<int32_t>(capacity),
                                         "what a decode step keeps beside K and V", /*stream=*/nullptr);
    if (status.code() == StatusCode::kOutOfMemory) {  // the host has room for a cache more
      made->why_not = kept.why_not = status.message();
      return {};
    }
    const kernels::CudaDecodeStep::Choice choice = step->ChoiceOf(problem);
    const int64_t num_lists = problem.num_kv_heads;
    // Pages are whole but for the last one, which may be among the chosen.
    const int32_t missing = choice.page_size - 1 - (problem.seq_k - 1) % choice.page_size;
    const bool known = missing == 0 || choice.keeps_newest;
    const int64_t chosen_bytes = num_lists * choice.pages * int64_t{sizeof(int32_t)};
    if (status.ok() && !known) status = chosen_.Reserve(static_cast<size_t>(chosen_bytes), "what a step chooses");
    if (status.ok()) {
      status = Run(*step, problem, kept.state.kept(), OutputOf(call),
                   known ? nullptr : static_cast<int32_t*>(chosen_.memory.get()));
    }
    int64_t with_last = num_lists;
    if (status.ok() && !known) {
      std::vector<int32_t> pages(static_cast<size_t>(num_lists * choice.pages));
      status = kernels::CopyFromDevice(chosen_.memory.get(), chosen_bytes, pages.data());
      with_last = std::ranges::count(pages, (problem.seq_k - 1) / choice.page_size);
    }
    made->made = status.ok();
    made->num_kept = num_lists * choice.pages * choice.page_size - with_last * missing;
    return status;
  }

  Status Decode(const model::AttentionCall& call, int32_t first_token,
                const kernels::DecodeSelection& selection) override {
    const AttentionProblem step = StepFrom(ProblemOf(call), first_token);
    kernels::CudaSelectionBuffers uploaded;
    Status status = kernels::UploadSelection(step, selection, &uploaded);
    return status.ok() ? Run(kernels::CudaSelectionStep(uploaded.view), step, {}, OutputOf(call), nullptr) : status;
  }

  Status WholeLse(const model::AttentionCall& call) override {
    AttentionProblem problem = ProblemOf(call);
    const int32_t window = std::exchange(problem.window, 0);
    Status status = kernels::RowLseCuda(problem, window, call.lse, /*stream=*/nullptr);
    if (status.code() != StatusCode::kUnsupported) return status;
    // A shape or a number format that the GPU's statistics do not take.
    AttentionProblem host;
    if (status = OnHost(call, &host); !status.ok()) return status;
    std::vector<float> lse(static_cast<size_t>(call.num_rows * problem.num_qo_heads));
    status = kernels::RowLse(host, window, options_, lse.data());
    return status.ok() ? kernels::CopyToDevice(lse.data(), static_cast<int64_t>(lse.size() * sizeof(float)), call.lse)
                       : status;
  }

  Status Output(const model::AttentionCall& call, kernels::AttentionOutput* output) override {
    const model::AttentionLayer& facts = *call.facts;
    const int64_t rows = call.num_rows * facts.num_qo_heads, values = rows * facts.v_head_dim;
    o_.resize(static_cast<size_t>(values));
    lse_.resize(static_cast<size_t>(rows));
    Status status = kernels::CopyFromDevice(call.lse, rows * int64_t{sizeof(float)}, lse_.data());
    if (!status.ok()) return status;
    if (call.type == ElementType::kBFloat16) {
      std::vector<uint16_t> narrow(o_.size());
      status = kernels::CopyFromDevice(call.o, values * 2, narrow.data());
      std::transform(narrow.begin(), narrow.end(), o_.begin(), &kernels::FloatFromBFloat16);
    } else {
      status = kernels::CopyFromDevice(call.o, values * 4, o_.data());
    }
    *output = {kernels::ContiguousTensor<void>(o_.data(), facts.num_qo_heads, call.num_rows, facts.v_head_dim),
               lse_.data()};
    return status;
  }

 private:
  static constexpr int64_t kFewestRows = 512;  // four tiles of each head: 128 of 32 heads, for 132 multiprocessors

  static kernels::AttentionOutput OutputOf(const model::AttentionCall& call) {
    return {kernels::ContiguousTensor<void>(call.o, call.facts->num_qo_heads, call.num_rows, call.facts->v_head_dim),
            call.lse};
  }

  Status Run(const kernels::CudaDecodeStep& step, const AttentionProblem& problem, const kernels::CudaKept& kept,
             const kernels::AttentionOutput& output, int32_t* chosen) {
    const size_t bytes = step.WorkspaceBytes(problem);
    Status status = workspace_.Reserve(bytes, "a decode step");
    // Some steps begin with zeros, and others leave anything.
    if (status.ok() && bytes > 0) {
      status = kernels::CudaStatus(cudaMemsetAsync(workspace_.memory.get(), 0, bytes, nullptr),
                                   "clearing a decode step's memory");
    }
    if (!status.ok()) return status;
    return step.Run(problem, kept, output, chosen, workspace_.memory.get(), bytes, /*stream=*/nullptr);
  }

  Status SelectHere(const model::AttentionCall& call, const kernels::CudaSelectPlan& plan,
                    const AttentionProblem& problem, const kernels::ParameterValues& values,
                    kernels::SparseIndex* index) {
    kernels::SparseIndexView view;
    Status status = selection_.Select(plan, problem, values, &view, /*stream=*/nullptr);
    if (status.ok()) status = kernels::AttendCuda(problem, view, OutputOf(call), /*stream=*/nullptr);
    return status.ok() && index != nullptr ? kernels::DownloadChecked(plan, view, index, /*stream=*/nullptr) : status;
  }

  kernels::RunOptions options_;          // stop: of the call
  std::optional<bool> has_fast_kernel_;  // of the GPU that dense calls are on
  std::thread::id chosen_by_;
  int32_t ordinal_ = 0;
  std::map<std::array<int32_t, 3>, HostCache> caches_;  // by layer, first KV head and how many
  std::map<int32_t, KeptBeside> kept_;                  // by layer
  std::vector<std::byte> q_;
  std::vector<float> o_, lse_;
  kernels::CudaSelectMemory selection_;
  kernels::GrowingDeviceMemory workspace_;
  kernels::GrowingDeviceMemory chosen_;  // of a step, where how many tokens it keeps depends on it
};

}  // namespace

std::unique_ptr<ModelDevice> MakeGpuDevice(const kernels::RunOptions& options) {
  return std::make_unique<GpuDevice>(options);
}

}  // namespace headscope::sparse_model
