// Decode methods on the GPU, step by step.
//
// A method that chooses by place needs no selection: a serving engine's cache holds just the tokens that it keeps (all
// of them for dense, a ring of the newest, with sinks in front), so dense decode runs over these, brought together
// beforehand. SparQ chooses and attends in one launch, over a component-major second copy of K.
#include <algorithm>
#include <utility>

#include "compare/decode_device.h"
#include "compare/timed_gpu_head.h"
#include "kernels/cuda_decode.h"
#include "kernels/sparq_setup.h"

namespace headscope::analysis {
namespace {

using kernels::AttentionProblem;
using kernels::Status;
using kernels::StatusCode;

constexpr int64_t kElementBytes = 2;

// Every call leaves it ready for the next one.
struct Workspace {
  GpuMemory memory;
  size_t bytes = 0;
};

class GpuDecode final : public DecodeDevice {
 public:
  GpuDecode(TimedGpuHead timed, const DecodeSteps& steps) : timed_(std::move(timed)), steps_(steps) {}

  const std::string& name() const override { return timed_.head->gpu_name(); }
  AttentionProblem Problem() const override { return timed_.head->host_problem(); }

  Status Run(const kernels::DecodeMethod& method, const kernels::ParameterValues& values, DecodeRun* run) override {
    const bool sparq = method.spec().name == "sparq";
    if (!sparq && !ChoosesByPlace(method)) {
      return {StatusCode::kUnsupported,
              "decode method " + method.spec().name + " has no kernel for GPUs: choose --device cpu, or leave it out"};
    }
    const auto num_steps = static_cast<size_t>(steps_.count());
    run->selections.resize(num_steps);
    run->select_ms.assign(static_cast<size_t>(timed_.options.repeats), 0.0);
    run->attend_ms.assign(static_cast<size_t>(timed_.options.repeats), 0.0);
    run->select_device = name();
    if (sparq && !timed_.head->exact())
      run->note = "sparq chooses by Q and K rounded to bf16: the trace holds finer values";
    run->o.clear();
    timed_.options.Report(
        {method.spec().name, "decode", 0, timed_.options.repeats});  // all repeats of a step take microseconds
    for (int64_t step = 0; step < steps_.count(); ++step) {
      // What is kept, by the CPU's selector: of SparQ, alpha and the mean value that the reference needs.
      Status status = steps_.Select(method, values, timed_.head->host_problem(), step,
                                    {timed_.options.num_threads, timed_.options.cancelled}, Selection(run, step));
      if (status.ok()) status = sparq ? RunSparq(values, step, run) : RunKnownTokens(step, run);
      if (!status.ok()) return status;
    }
    return {};
  }

 private:
  static kernels::DecodeSelection* Selection(DecodeRun* run, int64_t step) {
    return &run->selections[static_cast<size_t>(step)];
  }

  Status RunKnownTokens(int64_t step, DecodeRun* run) {
    AttentionProblem problem = steps_.Problem(timed_.head->problem(), step);
    if (Status status = Gather(Selection(run, step)->tokens, &problem); !status.ok()) return status;
    Workspace workspace;
    if (Status status = MakeWorkspace(problem, {}, &workspace); !status.ok()) return status;
    return TimeStep(run, [&] {
      return kernels::DecodeDenseCuda(problem, timed_.head->output(), workspace.memory.get(), workspace.bytes,
                                      /*stream=*/nullptr);
    });
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
    Status status = AllocateOnGpu(count * row, "the kept keys", &kept_k_);
    if (status.ok()) status = AllocateOnGpu(count * row, "the kept values", &kept_v_);
    for (int64_t begin = 0, end = 0; status.ok() && begin < count; begin = end) {
      const int32_t first = tokens[static_cast<size_t>(begin)];
      for (end = begin + 1; end < count && tokens[static_cast<size_t>(end)] - first == end - begin;) ++end;
      const auto bytes = static_cast<size_t>((end - begin) * row);
      for (const auto& [from, to] : {std::pair{k, kept_k_.get()}, std::pair{v, kept_v_.get()}}) {
        if (!status.ok()) break;
        status = GpuStatus(
            cudaMemcpy(static_cast<char*>(to) + begin * row, from + first * row, bytes, cudaMemcpyDeviceToDevice),
            "gathering kept keys and values");
      }
    }
    problem->k.data = kept_k_.get();
    problem->v.data = kept_v_.get();
    return status;
  }

  Status RunSparq(const kernels::ParameterValues& values, int64_t step, DecodeRun* run) {
    const AttentionProblem problem = steps_.Problem(timed_.head->problem(), step);
    const kernels::SparqCudaOptions options = kernels::SparqOptions(values, problem);
    kernels::DecodeSelection* const selection = Selection(run, step);
    const auto mean_bytes = static_cast<int64_t>(selection->mean_value.size() * sizeof(float));
    const int64_t chosen_bytes = int64_t{options.num_tokens} * int64_t{sizeof(int32_t)};
    GpuMemory mean, chosen;
    Workspace workspace;
    kernels::TransposedKeys transposed;
    Status status = AllocateOnGpu(mean_bytes, "the mean value", &mean);
    if (status.ok()) status = UploadToGpu(selection->mean_value.data(), mean_bytes, mean.get());
    if (status.ok()) status = AllocateOnGpu(chosen_bytes, "the chosen tokens", &chosen);
    if (status.ok()) status = MakeWorkspace(problem, options, &workspace);
    if (status.ok()) status = TransposeKeys(step, problem, &transposed);
    if (!status.ok()) return status;
    status = TimeStep(run, [&] {
      return kernels::DecodeSparqCuda(problem, options, transposed, static_cast<const float*>(mean.get()),
                                      timed_.head->output(), static_cast<int32_t*>(chosen.get()),
                                      workspace.memory.get(), workspace.bytes, /*stream=*/nullptr);
    });
    // The GPU's own choice: where estimates tie within rounding, it may be another token than the CPU's.
    if (status.ok()) status = DownloadFromGpu(chosen.get(), chosen_bytes, selection->tokens.data());
    return status;
  }

  // The step's keys, component-major.
  Status TransposeKeys(int64_t step, const AttentionProblem& problem, kernels::TransposedKeys* transposed) {
    const int64_t num_tokens = timed_.head->head().num_tokens;
    const int64_t head_dim = timed_.head->head().head_dim;
    const int64_t stride = kernels::ComponentStride(num_tokens);
    const int64_t bytes = head_dim * stride * kElementBytes;
    if (transposed_ == nullptr) {
      GpuMemory memory;
      Status status = AllocateOnGpu(bytes, "the component-major copy of K", &memory);
      if (!status.ok()) return status;
      const std::vector<uint16_t> host = kernels::ComponentMajorKeys(
          timed_.head->host_problem().k.data, /*num_lists=*/1, num_tokens, head_dim, timed_.options.num_threads);
      if (status = UploadToGpu(host.data(), bytes, memory.get()); !status.ok()) return status;
      transposed_ = std::move(memory);
    }
    *transposed = {transposed_.get(), head_dim * stride, head_dim * stride, stride};
    const int64_t first = steps_.FirstToken(step);
    if (first == 0) return {};
    // A window begins anywhere, but the kernel's rows begin at multiples of 16 bytes.
    if (moved_ == nullptr) {
      if (Status status = AllocateOnGpu(bytes, "the window's copy of K", &moved_); !status.ok()) return status;
    }
    transposed->data = moved_.get();
    return GpuStatus(
        cudaMemcpy2D(moved_.get(), static_cast<size_t>(stride * kElementBytes),
                     static_cast<const char*>(transposed_.get()) + first * kElementBytes,
                     static_cast<size_t>(stride * kElementBytes), static_cast<size_t>(problem.seq_k * kElementBytes),
                     static_cast<size_t>(head_dim), cudaMemcpyDeviceToDevice),
        "copying the window's keys");
  }

  static Status MakeWorkspace(const AttentionProblem& problem, const kernels::SparqCudaOptions& options,
                              Workspace* workspace) {
    workspace->bytes = kernels::DecodeWorkspaceBytes(problem, options);
    Status status = AllocateOnGpu(static_cast<int64_t>(workspace->bytes), "a decode step", &workspace->memory);
    if (!status.ok()) return status;
    return GpuStatus(cudaMemset(workspace->memory.get(), 0, workspace->bytes), "clearing a decode step's memory");
  }

  // Warms up, takes the step's output, and adds the step's share to the time of every repeat.
  template <typename Launch>
  Status TimeStep(DecodeRun* run, const Launch& launch) {
    Status status = timed_.head->PoisonOutput();
    if (status.ok()) status = timed_.clock->Time({launch}, nullptr);
    std::vector<float> o;
    if (status.ok()) status = timed_.head->ReadOutput(1, &o);
    if (!status.ok()) return status;
    run->o.insert(run->o.end(), o.begin(), o.end());
    return timed_.Repeat([&](int32_t repeat) {
      std::vector<double> times;
      Status timed = timed_.clock->Time({launch}, &times);
      if (!timed.ok()) return timed;
      run->attend_ms[static_cast<size_t>(repeat)] += times[0] / static_cast<double>(steps_.count());
      return timed;
    });
  }

  const TimedGpuHead timed_;
  const DecodeSteps& steps_;
  GpuMemory kept_k_, kept_v_;     // of a step whose tokens do not lie side by side
  GpuMemory transposed_, moved_;  // K component-major, whole and from a window's first token on; made when needed
};

}  // namespace

Status MakeGpuDecode(HeadTensorsPtr head, const DecodeSteps& steps, const CompareOptions& options,
                     std::unique_ptr<DecodeDevice>* made) {
  TimedGpuHead timed;
  if (Status status = TimedGpuHead::Create(std::move(head), options, &timed); !status.ok()) return status;
  *made = std::make_unique<GpuDecode>(std::move(timed), steps);
  return {};
}

}  // namespace headscope::analysis
