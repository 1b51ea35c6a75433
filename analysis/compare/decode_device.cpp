#include "compare/decode_device.h"

#include <utility>

#include "analysis/types/timing.h"
#include "compare/repeats.h"
#include "compare/unknown_device.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"

namespace headscope::analysis {
namespace {

using kernels::Status;

class CpuDecode final : public DecodeDevice {
 public:
  CpuDecode(HeadTensorsPtr head, const DecodeSteps& steps, const CompareOptions& options)
      : head_(std::move(head)), steps_(steps), options_(options) {}

  const std::string& name() const override { return name_; }
  kernels::AttentionProblem Problem() const override { return head_->Problem(); }

  Status Run(const kernels::DecodeMethod& method, const kernels::ParameterValues& values, DecodeRun* run) override {
    const kernels::RunOptions run_options{options_.num_threads, options_.cancelled};
    const kernels::AttentionProblem whole = Problem();
    const int64_t head_dim = head_->head_dim;
    const auto num_steps = static_cast<size_t>(steps_.count());
    run->selections.resize(num_steps);
    run->o.assign(num_steps * static_cast<size_t>(head_dim), 0.0f);
    for (Repeats repeats(options_, method.spec().name, "decode"); repeats.Begin();) {
      double select_ms = 0, attend_ms = 0;
      for (int64_t step = 0; step < steps_.count(); ++step) {
        kernels::DecodeSelection& selection = run->selections[static_cast<size_t>(step)];
        const Stopwatch select_watch;
        if (Status status = steps_.Select(method, values, whole, step, run_options, &selection); !status.ok())
          return status;
        select_ms += select_watch.Milliseconds();
        kernels::AttentionOutput output;
        output.o = kernels::ContiguousTensor<void>(run->o.data() + step * head_dim, 1, 1, head_dim);
        const Stopwatch attend_watch;
        if (Status status = kernels::DecodeCpu(steps_.Problem(whole, step), selection, output, run_options);
            !status.ok())
          return status;
        attend_ms += attend_watch.Milliseconds();
      }
      repeats.Took(select_ms + attend_ms);
      if (repeats.is_warm_up()) continue;
      run->select_ms.push_back(select_ms / static_cast<double>(num_steps));
      run->attend_ms.push_back(attend_ms / static_cast<double>(num_steps));
    }
    run->select_device = name_;
    return {};
  }

 private:
  const HeadTensorsPtr head_;
  const DecodeSteps& steps_;
  const CompareOptions options_;
  const std::string name_ = "cpu";
};

}  // namespace

Status MakeDecodeDevice(HeadTensorsPtr head, const DecodeSteps& steps, const CompareOptions& options,
                        std::unique_ptr<DecodeDevice>* made) {
  if (options.device == "cuda") return MakeGpuDecode(std::move(head), steps, options, made);
  if (options.device != "cpu") return UnknownDevice(options.device);
  *made = std::make_unique<CpuDecode>(std::move(head), steps, options);
  return {};
}

}  // namespace headscope::analysis
