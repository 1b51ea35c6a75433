// SPDX-License-Identifier: Apache-2.0
// Decode methods on the GPU, step by step, all measured heads in one launch: batch 1.
//
// A method that chooses by place needs no selection: a serving engine's cache holds just the tokens that it keeps (all
// of them for dense, a ring of the newest, with sinks in front), so the executor takes all of these, brought together
// beforehand. Two kinds choose and attend in one chain of launches: by estimated scores, over a component-major second
// copy of K (SparQ), and by the bounds of pages, which a generation keeps up from step to step (Quest). Every other
// method chooses on the CPU, and its lists are attended here.
#include <algorithm>
#include <optional>
#include <utility>

#include "analysis/types/timing.h"
#include "compare/decode_device.h"
#include "compare/decode_walk.h"
#include "compare/timed_gpu.h"
#include "kernels/contiguous.h"
#include "kernels/cuda_decode.h"
#include "kernels/cuda_decode_selection.h"
#include "kernels/cuda_quest.h"
#include "kernels/sparq_setup.h"

namespace headscope::analysis {
namespace {

using kernels::AttentionProblem;
using kernels::Status;

constexpr int64_t kElementBytes = 2;

// Every call leaves it ready for the next one.
struct Workspace {
  kernels::DeviceMemory memory;
  size_t bytes = 0;
};

class GpuDecode final : public DecodeDevice {
 public:
  GpuDecode(TimedGpu timed, const DecodeSteps& steps) : timed_(std::move(timed)), steps_(steps) {}

  const NamedDevice& where() const override { return timed_.heads->device(); }
  AttentionProblem Problem() const override { return timed_.heads->host_problem(); }

  Status Prepare(const kernels::DecodeMethod& method, const kernels::ParameterValues& values, DecodeRun* run,
                 std::unique_ptr<DecodeWork>* work) override {
    const bool fused = !method.spec().reads_output;  // these launches are not asked for what a method learns from
    const AttentionProblem first = steps_.Problem(timed_.heads->problem(), 0);
    const std::optional<kernels::PagesByBounds> pages = method.FusedPages(values);
    const Way way = fused && method.FusedStep(values, steps_.Problem(Problem(), 0))     ? Way::kSparq
                    : fused && pages && kernels::QuestWorkspaceBytes(first, *pages) > 0 ? Way::kPages
                    : fused && method.spec().IsStatic()                                 ? Way::kKnownTokens
                                                                                        : Way::kSelection;
    run->selections.resize(static_cast<size_t>(steps_.count()));
    run->select_device = way == Way::kSelection ? NamedCpu() : where();
    if (way == Way::kSelection)
      run->note = method.spec().name + " selects on the CPU: no kernel for GPUs chooses for it";
    if (way != Way::kKnownTokens && !timed_.heads->exact()) {
      if (!run->note.empty()) run->note += "; ";
      run->note += method.spec().name + " chooses by Q and K rounded to bf16: the trace holds finer values";
    }
    run->o.clear();
    auto made = std::make_unique<Work>(*this, way, method, values, run);
    if (Status status = made->walk.Start(); !status.ok()) return status;
    for (int64_t step = 0; step < steps_.count(); ++step) {
      // What is kept, by the CPU's selector: of SparQ, alpha and the mean value that the reference needs.
      double dropped = 0;
      Status status = timed_.heads->PoisonOutput();
      if (status.ok()) status = made->walk.Select(step, Selection(run, step), &dropped);
      if (status.ok())
        status = made->Attend(step, &dropped, &dropped,
                              way == Way::kSparq || way == Way::kPages ? Selection(run, step)->pages.data() : nullptr);
      std::vector<float> o;
      if (status.ok()) status = made->ReadStep(step, &o);
      if (!status.ok()) return status;
      run->o.insert(run->o.end(), o.begin(), o.end());
    }
    *work = std::move(made);
    return {};
  }

 private:
  static kernels::DecodeSelection* Selection(DecodeRun* run, int64_t step) {
    return &run->selections[static_cast<size_t>(step)];
  }

  // How a step of a method is run.
  enum class Way { kKnownTokens, kSparq, kPages, kSelection };

  class Work final : public DecodeWork {
   public:
    Work(GpuDecode& device, Way way, const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
         DecodeRun* run)
        : walk(device.steps_, method, values, device.Problem(), RecordedOf(device.timed_.heads->heads()),
               {device.timed_.options->num_threads, device.timed_.options->stop}),
          device_(device),
          way_(way),
          method_(method),
          values_(values),
          run_(run) {}

    // Chooses anew where that is the CPU's, whose lists are then copied to the GPU: part of what choosing takes.
    Status Once(double* select_ms, double* attend_ms) override {
      const auto count = static_cast<double>(device_.steps_.count());
      walk.StopBy(device_.timed_.options->stop);
      if (way_ == Way::kSelection) {
        if (Status status = walk.Start(); !status.ok()) return status;
      }
      double select = 0, attend = 0;
      for (int64_t step = 0; step < device_.steps_.count(); ++step) {
        Status status;
        if (way_ == Way::kSelection) status = walk.Select(step, Selection(run_, step), &select);
        double milliseconds = 0;
        if (status.ok()) status = Attend(step, &select, &milliseconds, nullptr);
        attend += milliseconds;
        std::vector<float> dropped;
        if (status.ok() && walk.WantsOutput()) status = ReadStep(step, &dropped);
        if (!status.ok()) return status;
      }
      *select_ms += select / count;
      *attend_ms += attend / count;
      return {};
    }

    // chosen: where the GPU's own choice of tokens or pages goes, or null.
    Status Attend(int64_t step, double* upload_ms, double* milliseconds, int32_t* chosen) {
      const kernels::DecodeSelection& selection = *Selection(run_, step);
      switch (way_) {
        case Way::kKnownTokens:
          return device_.RunKnownTokens(step, selection, milliseconds);
        case Way::kSparq:
          return device_.RunSparq(method_, values_, step, selection, milliseconds, chosen);
        case Way::kPages:
          return device_.RunPages(method_.FusedPages(values_).value(), step, milliseconds, chosen);
        case Way::kSelection:
          break;
      }
      const AttentionProblem problem = device_.steps_.Problem(device_.timed_.heads->problem(), step);
      const Stopwatch watch;
      Status status = kernels::UploadSelection(problem, selection, &uploaded_);
      *upload_ms += watch.Milliseconds();
      return status.ok() ? device_.RunSelection(problem, uploaded_.view, milliseconds) : status;
    }

    // The step's output, which a method that learns from it is told.
    Status ReadStep(int64_t step, std::vector<float>* o) {
      const int32_t num_heads = device_.timed_.heads->heads().num_qo_heads;
      if (Status status = device_.timed_.heads->ReadOutput(num_heads, o); !status.ok()) return status;
      if (!walk.WantsOutput()) return {};
      std::vector<float> lse(static_cast<size_t>(num_heads));
      Status status = device_.ReadLse(&lse);
      return status.ok() ? walk.Attended(step, *Selection(run_, step), o->data(), lse.data()) : status;
    }

    DecodeWalk walk;

   private:
    GpuDecode& device_;
    const Way way_;
    const kernels::DecodeMethod& method_;
    const kernels::ParameterValues& values_;
    DecodeRun* const run_;
    kernels::CudaSelectionBuffers uploaded_;
  };

  // Of the last step that ran.
  Status ReadLse(std::vector<float>* lse) const {
    return kernels::CopyFromDevice(lse_.get(), static_cast<int64_t>(lse->size() * sizeof(float)), lse->data());
  }

  // Where the executor leaves a step's lse.
  Status StepOutput(kernels::AttentionOutput* output) {
    *output = timed_.heads->step_output();
    if (lse_ == nullptr) {
      const int64_t bytes = timed_.heads->heads().num_qo_heads * int64_t{sizeof(float)};
      if (Status status = kernels::AllocateOnDevice(bytes, "the log-sum-exp of a step", &lse_); !status.ok())
        return status;
    }
    output->lse = static_cast<float*>(lse_.get());
    return {};
  }

  // A selection that lies on the GPU.
  Status RunSelection(const AttentionProblem& problem, const kernels::CudaSelection& selection, double* milliseconds) {
    kernels::AttentionOutput output;
    if (Status status = StepOutput(&output); !status.ok()) return status;
    Workspace workspace;
    workspace.bytes = kernels::SelectionWorkspaceBytes(problem, selection);
    if (Status status = ClearedWorkspace(&workspace); !status.ok()) return status;
    return TimeStep(milliseconds, [&] {
      return kernels::AttendSelectionCuda(problem, selection, output, workspace.memory.get(), workspace.bytes,
                                          /*stream=*/nullptr);
    });
  }

  // Every KV head keeps the same tokens.
  Status RunKnownTokens(int64_t step, const kernels::DecodeSelection& selection, double* milliseconds) {
    AttentionProblem problem = steps_.Problem(timed_.heads->problem(), step);
    const std::vector<int32_t> tokens = kernels::TokensOfList(selection, 0, problem.seq_k);
    if (Status status = Gather(tokens, &problem); !status.ok()) return status;
    kernels::CudaSelectionBuffers all;
    Status status = kernels::UploadSelection(problem, WholeCache(problem), &all);
    return status.ok() ? RunSelection(problem, all.view, milliseconds) : status;
  }
  // Every token, which the executor then takes as dense decode.
  static kernels::DecodeSelection WholeCache(const AttentionProblem& problem) {
    constexpr int32_t kPage = 16;
    kernels::DecodeSelection all;
    all.batch = problem.batch;
    all.num_qo_heads = problem.num_qo_heads;
    all.num_kv_heads = problem.num_kv_heads;
    all.page_size = kPage;
    all.page_begin = {0};
    for (int32_t list = 0; list < problem.batch * problem.num_kv_heads; ++list) {
      for (int32_t page = 0; page <= (problem.seq_k - 1) / kPage; ++page) all.pages.push_back(page);
      all.page_begin.push_back(static_cast<int64_t>(all.pages.size()));
    }
    return all;
  }

  // The bounds of pages lie there before a step, as a generation has them.
  Status RunPages(const kernels::PagesByBounds& pages, int64_t step, double* milliseconds, int32_t* chosen_pages) {
    const AttentionProblem problem = steps_.Problem(timed_.heads->problem(), step);
    const int64_t of_list = int64_t{kernels::NumQuestPages(problem, pages)} * 2 * problem.head_dim;
    const int64_t chosen_bytes =
        int64_t{problem.num_kv_heads} * kernels::NumQuestPicks(problem, pages) * int64_t{sizeof(int32_t)};
    kernels::DeviceMemory memory, chosen;
    Workspace workspace;
    workspace.bytes = kernels::QuestWorkspaceBytes(problem, pages);
    Status status =
        kernels::AllocateOnDevice(problem.num_kv_heads * of_list * kElementBytes, "the bounds of pages", &memory);
    if (status.ok()) status = kernels::AllocateOnDevice(chosen_bytes, "the chosen pages", &chosen);
    if (status.ok()) status = ClearedWorkspace(&workspace);
    const kernels::CudaPageBounds bounds{.data = memory.get(), .list_stride = of_list};
    if (status.ok()) status = kernels::UpdatePageBoundsCuda(problem, pages.page_size, 0, bounds, /*stream=*/nullptr);
    if (!status.ok()) return status;
    status = TimeStep(milliseconds, [&] {
      return kernels::DecodeQuestCuda(problem, pages, bounds, timed_.heads->step_output(),
                                      static_cast<int32_t*>(chosen.get()), workspace.memory.get(), workspace.bytes,
                                      /*stream=*/nullptr);
    });
    // Where scores tie within rounding, the GPU's choice may be another page than the CPU's; it is as many.
    if (status.ok() && chosen_pages != nullptr)
      status = kernels::CopyFromDevice(chosen.get(), chosen_bytes, chosen_pages);
    return status;
  }

  // Makes `problem` one over these of its tokens alone: in place where they lie side by side, otherwise in a copy.
  // Attention does not ask for an order.
  Status Gather(const std::vector<int32_t>& tokens, AttentionProblem* problem) {
    const int64_t row = problem->head_dim * kElementBytes;
    const auto* const k = static_cast<const char*>(problem->k.data);
    const auto* const v = static_cast<const char*>(problem->v.data);
    const auto count = static_cast<int64_t>(tokens.size());
    problem->seq_k = static_cast<int32_t>(count);
    problem->first_position = problem->seq_k - 1;
    if (tokens.back() - tokens.front() + 1 == count) {
      problem->k.data = k + tokens.front() * row;
      problem->v.data = v + tokens.front() * row;
      return {};
    }
    const int64_t all_bytes = problem->num_kv_heads * count * row;
    Status status = kernels::AllocateOnDevice(all_bytes, "the kept keys", &kept_k_);
    if (status.ok()) status = kernels::AllocateOnDevice(all_bytes, "the kept values", &kept_v_);
    const auto head_bytes = static_cast<size_t>(problem->k.head_stride * kElementBytes);
    for (int64_t begin = 0, end = 0; status.ok() && begin < count; begin = end) {
      const int32_t first = tokens[static_cast<size_t>(begin)];
      for (end = begin + 1; end < count && tokens[static_cast<size_t>(end)] - first == end - begin;) ++end;
      // The same rows of every KV head.
      const auto bytes = static_cast<size_t>((end - begin) * row);
      for (const auto& [from, to] : {std::pair{k, kept_k_.get()}, std::pair{v, kept_v_.get()}}) {
        if (!status.ok()) break;
        status = kernels::CudaStatus(
            cudaMemcpy2D(static_cast<char*>(to) + begin * row, static_cast<size_t>(count * row), from + first * row,
                         head_bytes, bytes, static_cast<size_t>(problem->num_kv_heads), cudaMemcpyDeviceToDevice),
            "gathering kept keys and values");
      }
    }
    problem->k = kernels::ContiguousTensor<const void>(kept_k_.get(), problem->num_kv_heads, count, problem->head_dim);
    problem->v = kernels::ContiguousTensor<const void>(kept_v_.get(), problem->num_kv_heads, count, problem->head_dim);
    return status;
  }

  Status RunSparq(const kernels::DecodeMethod& method, const kernels::ParameterValues& values, int64_t step,
                  const kernels::DecodeSelection& selection, double* milliseconds, int32_t* chosen_tokens) {
    const AttentionProblem problem = steps_.Problem(timed_.heads->problem(), step);
    const kernels::EstimatedTopTokens options = method.FusedStep(values, problem).value();
    const auto mean_bytes = static_cast<int64_t>(selection.mean_value.size() * sizeof(float));
    const int64_t chosen_bytes = int64_t{problem.num_kv_heads} * options.num_tokens * int64_t{sizeof(int32_t)};
    kernels::DeviceMemory mean, chosen;
    Workspace workspace;
    kernels::TransposedKeys transposed;
    Status status = kernels::AllocateOnDevice(mean_bytes, "the mean value", &mean);
    if (status.ok()) status = kernels::CopyToDevice(selection.mean_value.data(), mean_bytes, mean.get());
    if (status.ok()) status = kernels::AllocateOnDevice(chosen_bytes, "the chosen tokens", &chosen);
    if (status.ok()) status = MakeWorkspace(problem, options, &workspace);
    if (status.ok()) status = TransposeKeys(step, problem, &transposed);
    if (!status.ok()) return status;
    status = TimeStep(milliseconds, [&] {
      return kernels::DecodeSparqCuda(problem, options, transposed, static_cast<const float*>(mean.get()),
                                      timed_.heads->step_output(), static_cast<int32_t*>(chosen.get()),
                                      workspace.memory.get(), workspace.bytes, /*stream=*/nullptr);
    });
    // The GPU's own choice: where estimates tie within rounding, it may be another token than the CPU's. Both choose
    // options.num_tokens per KV head, list behind list.
    if (status.ok() && chosen_tokens != nullptr)
      status = kernels::CopyFromDevice(chosen.get(), chosen_bytes, chosen_tokens);
    return status;
  }

  // The step's keys, component-major.
  Status TransposeKeys(int64_t step, const AttentionProblem& problem, kernels::TransposedKeys* transposed) {
    const int64_t num_tokens = timed_.heads->heads().num_tokens;
    const int64_t head_dim = timed_.heads->heads().head_dim;
    const int64_t stride = kernels::ComponentStride(num_tokens);
    const int64_t num_kv_heads = timed_.heads->heads().num_kv_heads;
    const int64_t bytes = num_kv_heads * head_dim * stride * kElementBytes;
    if (transposed_ == nullptr) {
      kernels::DeviceMemory memory;
      Status status = kernels::AllocateOnDevice(bytes, "the component-major copy of K", &memory);
      if (!status.ok()) return status;
      const std::vector<uint16_t> host = kernels::ComponentMajorKeys(timed_.heads->host_problem().k.data, num_kv_heads,
                                                                     num_tokens, head_dim, timed_.options->num_threads);
      if (status = kernels::CopyToDevice(host.data(), bytes, memory.get()); !status.ok()) return status;
      transposed_ = std::move(memory);
    }
    *transposed = {transposed_.get(), bytes / kElementBytes, head_dim * stride, stride};
    const int64_t first = steps_.FirstToken(step);
    if (first == 0) return {};
    // A window begins anywhere, but the kernel's rows begin at multiples of 16 bytes.
    if (moved_ == nullptr) {
      if (Status status = kernels::AllocateOnDevice(bytes, "the window's copy of K", &moved_); !status.ok())
        return status;
    }
    transposed->data = moved_.get();
    return kernels::CudaStatus(
        cudaMemcpy2D(moved_.get(), static_cast<size_t>(stride * kElementBytes),
                     static_cast<const char*>(transposed_.get()) + first * kElementBytes,
                     static_cast<size_t>(stride * kElementBytes), static_cast<size_t>(problem.seq_k * kElementBytes),
                     static_cast<size_t>(num_kv_heads * head_dim), cudaMemcpyDeviceToDevice),
        "copying the window's keys");
  }

  static Status MakeWorkspace(const AttentionProblem& problem, const kernels::SparqCudaOptions& options,
                              Workspace* workspace) {
    workspace->bytes = kernels::DecodeWorkspaceBytes(problem, options);
    return ClearedWorkspace(workspace);
  }

  // Memory of workspace->bytes, zeroed.
  static Status ClearedWorkspace(Workspace* workspace) {
    Status status =
        kernels::AllocateOnDevice(static_cast<int64_t>(workspace->bytes), "a decode step", &workspace->memory);
    if (!status.ok()) return status;
    return kernels::CudaStatus(cudaMemset(workspace->memory.get(), 0, workspace->bytes),
                               "clearing a decode step's memory");
  }

  template <typename Launch>
  Status TimeStep(double* milliseconds, const Launch& launch) {
    std::vector<double> times;
    Status status = timed_.clock->Time({launch}, &times);
    if (status.ok()) *milliseconds = times[0];
    return status;
  }

  const TimedGpu timed_;
  const DecodeSteps& steps_;
  kernels::DeviceMemory kept_k_, kept_v_;  // of a step whose tokens do not lie side by side
  kernels::DeviceMemory lse_;              // [num_qo_heads], of a step; made when needed
  kernels::DeviceMemory transposed_,
      moved_;  // K component-major, whole and from a window's first token on; made when needed
};

}  // namespace

Status MakeGpuDecode(MeasuredHeadsPtr heads, const DecodeSteps& steps, const CompareOptions& options,
                     std::unique_ptr<DecodeDevice>* made) {
  TimedGpu timed;
  if (Status status = TimedGpu::Create(std::move(heads), options, &timed); !status.ok()) return status;
  *made = std::make_unique<GpuDecode>(std::move(timed), steps);
  return {};
}

}  // namespace headscope::analysis
