// SPDX-License-Identifier: Apache-2.0
// Decode methods on the GPU, step by step, all measured heads in one launch: batch 1.
//
// A method that chooses by place needs no selection: a serving engine's cache holds just the tokens that it keeps (all
// of them for dense, a ring of the newest, with sinks in front), so the executor takes all of these, brought together
// beforehand. A method whose choice a kernel makes chooses and attends in one chain of launches, where that takes the
// heads; what these read beside K and V is brought up from step to step, as a generation does it, and is no part of a
// step. Every other method chooses on the CPU, and its lists are attended here. All of it goes through one call,
// kernels/cuda_decode_step.h.
#include <memory>
#include <utility>
#include <vector>

#include "analysis/types/timing.h"
#include "compare/decode_device.h"
#include "compare/decode_walk.h"
#include "compare/timed_gpu.h"
#include "kernels/contiguous.h"
#include "kernels/cuda_decode_step.h"
#include "kernels/cuda_kept_state.h"

namespace headscope::analysis {
namespace {

using kernels::AttentionProblem;
using kernels::CudaDecodeStep;
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
  void StopBy(std::stop_token stop) override { timed_.options.stop = std::move(stop); }

  Status Prepare(const kernels::DecodeMethod& method, const kernels::ParameterValues& values, DecodeRun* run,
                 std::unique_ptr<DecodeWork>* work) override {
    std::unique_ptr<CudaDecodeStep> last;  // the longest, and so the hardest
    const Status plan = kernels::PlanCudaDecodeStep(method, values, StepProblem(steps_.count() - 1), &last);
    // What is known before: a choice by place, and that of a layer that stays dense.
    const bool known =
        method.IsDenseLayer(values, StepProblem(0).layer) || (method.spec().IsStatic() && !method.spec().reads_output);
    const bool chooses = plan.ok();
    run->selections.resize(static_cast<size_t>(steps_.count()));
    run->select_device = known || chooses ? where() : NamedCpu();
    if (!known && !chooses) run->note = method.spec().name + " selects on the CPU: " + plan.message();
    if (!known && !timed_.heads->exact()) {
      if (!run->note.empty()) run->note += "; ";
      run->note += method.spec().name + " selects from Q and K rounded to bf16: the trace holds more precise values";
    }
    run->o.clear();
    auto made = std::make_unique<Work>(*this, known, chooses, method, values, run);
    if (Status status = made->walk.Start(); !status.ok()) return status;
    for (int64_t step = 0; step < steps_.count(); ++step) {
      // What is kept, by the CPU's selector: of SparQ, alpha and the mean value that the reference needs.
      double dropped = 0;
      Status status = timed_.heads->PoisonOutput();
      if (status.ok()) status = made->walk.Select(step, Selection(run, step), &dropped);
      if (status.ok()) status = made->Attend(step, &dropped, &dropped, chooses ? Selection(run, step) : nullptr);
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

  AttentionProblem StepProblem(int64_t step) const { return steps_.Problem(timed_.heads->problem(), step); }

  class Work final : public DecodeWork {
   public:
    // known: the tokens that are kept are known beforehand. chooses: what attends chooses as well.
    Work(GpuDecode& device, bool known, bool chooses, const kernels::DecodeMethod& method,
         const kernels::ParameterValues& values, DecodeRun* run)
        : walk(device.steps_, method, values, device.Problem(), RecordedOf(device.timed_.heads->heads()),
               {device.timed_.options.num_threads, device.timed_.options.stop}),
          device_(device),
          known_(known),
          selects_on_cpu_(!known && !chooses),
          method_(method),
          values_(values),
          run_(run) {
      device.kept_of_ = nullptr;  // which may have been a work in this one's place
    }

    // Chooses anew where that is the CPU's, whose lists are then copied to the GPU: part of what choosing takes.
    Status Once(double* select_ms, double* attend_ms) override {
      const auto count = static_cast<double>(device_.steps_.count());
      walk.StopBy(device_.timed_.options.stop);
      if (selects_on_cpu_) {
        if (Status status = walk.Start(); !status.ok()) return status;
      }
      double select = 0, attend = 0;
      for (int64_t step = 0; step < device_.steps_.count(); ++step) {
        Status status;
        if (selects_on_cpu_) status = walk.Select(step, Selection(run_, step), &select);
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

    // chosen: the selection whose lists the GPU's own choice of tokens or pages replaces, or null.
    Status Attend(int64_t step, double* upload_ms, double* milliseconds, kernels::DecodeSelection* chosen) {
      const kernels::DecodeSelection& selection = *Selection(run_, step);
      if (known_) return device_.RunKnownTokens(step, selection, milliseconds);
      if (!selects_on_cpu_) return device_.RunChoosing(*this, step, milliseconds, chosen);
      const AttentionProblem problem = device_.StepProblem(step);
      const Stopwatch watch;
      Status status = kernels::UploadSelection(problem, selection, &uploaded_);
      *upload_ms += watch.Milliseconds();
      return status.ok() ? device_.RunSelection(problem, uploaded_.view, milliseconds) : status;
    }

    // The step's output, which a method that learns from it is told.
    Status ReadStep(int64_t step, std::vector<float>* o) {
      const int32_t num_heads = device_.timed_.heads->heads().num_qo_heads;
      if (Status status = device_.timed_.heads->ReadOutput(0, num_heads, o); !status.ok()) return status;
      if (!walk.WantsOutput()) return {};
      std::vector<float> lse(static_cast<size_t>(num_heads));
      Status status = device_.ReadLse(&lse);
      return status.ok() ? walk.Attended(step, *Selection(run_, step), o->data(), lse.data()) : status;
    }

    // The step that chooses as it attends.
    Status Plan(const AttentionProblem& problem, std::unique_ptr<CudaDecodeStep>* how) const {
      return kernels::PlanCudaDecodeStep(method_, values_, problem, how);
    }

    DecodeWalk walk;

   private:
    GpuDecode& device_;
    const bool known_, selects_on_cpu_;
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
    return Run(kernels::CudaSelectionStep(selection), problem, {}, output, nullptr, milliseconds);
  }

  // One step, timed. chosen: as CudaDecodeStep has it.
  Status Run(const CudaDecodeStep& how, const AttentionProblem& problem, const kernels::CudaKept& kept,
             const kernels::AttentionOutput& output, int32_t* chosen, double* milliseconds) {
    Workspace workspace;
    workspace.bytes = how.WorkspaceBytes(problem);
    if (Status status = ClearedWorkspace(&workspace); !status.ok()) return status;
    std::vector<double> times;
    const auto launch = [&] {
      return how.Run(problem, kept, output, chosen, workspace.memory.get(), workspace.bytes, /*stream=*/nullptr);
    };
    Status status = timed_.clock->Time({launch}, &times);
    if (status.ok()) *milliseconds = times[0];
    return status;
  }

  // Every KV head keeps the same tokens.
  Status RunKnownTokens(int64_t step, const kernels::DecodeSelection& selection, double* milliseconds) {
    AttentionProblem problem = StepProblem(step);
    const std::vector<int32_t> tokens = kernels::TokensOfList(selection, 0, problem.seq_k);
    if (Status status = Gather(tokens, &problem); !status.ok()) return status;
    kernels::CudaSelectionBuffers all;
    Status status = kernels::UploadSelection(problem, kernels::WholeCache(problem), &all);
    return status.ok() ? RunSelection(problem, all.view, milliseconds) : status;
  }

  // A step whose launches choose. Where scores tie within rounding, their choice, list behind list, may be another
  // token or page than the CPU's; it is as many, and has to be where it goes to `chosen`.
  Status RunChoosing(const Work& work, int64_t step, double* milliseconds, kernels::DecodeSelection* chosen) {
    const AttentionProblem problem = StepProblem(step);
    std::unique_ptr<CudaDecodeStep> how;
    if (Status status = work.Plan(problem, &how); !status.ok()) return status;
    const int64_t num_chosen = how->ChoiceOf(problem).pages;
    if (chosen != nullptr) {
      if (Status status = CheckChosenCount(*chosen, num_chosen, step); !status.ok()) return status;
    }
    const int64_t chosen_bytes = int64_t{problem.num_kv_heads} * num_chosen * int64_t{sizeof(int32_t)};
    kernels::DeviceMemory on_gpu;
    Status status = kernels::AllocateOnDevice(chosen_bytes, "what a step chooses", &on_gpu);
    if (std::exchange(kept_of_, &work) != &work) kept_.Forget();  // another method's is of no use here
    if (status.ok()) {
      status = kept_.BringUpTo(*how, problem, static_cast<int32_t>(timed_.heads->heads().num_tokens),
                               "what a decode step keeps beside K and V", /*stream=*/nullptr);
    }
    if (status.ok()) {
      status = Run(*how, problem, kept_.kept(), timed_.heads->step_output(), static_cast<int32_t*>(on_gpu.get()),
                   milliseconds);
    }
    if (status.ok() && chosen != nullptr)
      status = kernels::CopyFromDevice(on_gpu.get(), chosen_bytes, chosen->pages.data());
    return status;
  }

  // Makes `problem` one over these of its tokens alone: in place where they lie side by side, otherwise in a copy.
  // Attention does not ask for an order.
  Status Gather(const std::vector<int32_t>& tokens, AttentionProblem* problem) {
    struct Side {
      kernels::StridedTensor<const void>* tensor;
      kernels::DeviceMemory* kept;
      int64_t dim;
      const char* what;
    };
    const Side sides[] = {{&problem->k, &kept_k_, problem->head_dim, "the kept keys"},
                          {&problem->v, &kept_v_, problem->ValueDim(), "the kept values"}};
    const auto count = static_cast<int64_t>(tokens.size());
    problem->seq_k = static_cast<int32_t>(count);
    problem->first_position = problem->seq_k - 1;
    const bool in_place = tokens.back() - tokens.front() + 1 == count;
    Status status;
    for (const Side& side : sides) {
      const int64_t row = side.dim * kElementBytes;
      const auto* const from = static_cast<const char*>(side.tensor->data);
      if (in_place) {
        side.tensor->data = from + tokens.front() * row;
        continue;
      }
      if (status.ok()) status = kernels::AllocateOnDevice(problem->num_kv_heads * count * row, side.what, side.kept);
      const auto head_bytes = static_cast<size_t>(side.tensor->head_stride * kElementBytes);
      for (int64_t begin = 0, end = 0; status.ok() && begin < count; begin = end) {
        const int32_t first = tokens[static_cast<size_t>(begin)];
        for (end = begin + 1; end < count && tokens[static_cast<size_t>(end)] - first == end - begin;) ++end;
        // The same rows of every KV head.
        status = kernels::CudaStatus(
            cudaMemcpy2D(static_cast<char*>(side.kept->get()) + begin * row, static_cast<size_t>(count * row),
                         from + first * row, head_bytes, static_cast<size_t>((end - begin) * row),
                         static_cast<size_t>(problem->num_kv_heads), cudaMemcpyDeviceToDevice),
            "gathering kept keys and values");
      }
      *side.tensor = kernels::ContiguousTensor<const void>(side.kept->get(), problem->num_kv_heads, count, side.dim);
    }
    return status;
  }

  // Memory of workspace->bytes, zeroed.
  static Status ClearedWorkspace(Workspace* workspace) {
    Status status =
        kernels::AllocateOnDevice(static_cast<int64_t>(workspace->bytes), "a decode step", &workspace->memory);
    if (!status.ok()) return status;
    return kernels::CudaStatus(cudaMemset(workspace->memory.get(), 0, workspace->bytes),
                               "clearing a decode step's memory");
  }

  TimedGpu timed_;
  const DecodeSteps& steps_;
  kernels::DeviceMemory kept_k_, kept_v_;  // of a step whose tokens do not lie side by side
  kernels::DeviceMemory lse_;              // [num_qo_heads], of a step; made when needed
  kernels::CudaKeptState kept_;            // of the steps that ran last; made when needed
  const Work* kept_of_ = nullptr;          // whose that is
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
