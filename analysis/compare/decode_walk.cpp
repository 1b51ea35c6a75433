// SPDX-License-Identifier: Apache-2.0
#include "compare/decode_walk.h"

#include <algorithm>
#include <utility>

#include "analysis/types/timing.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"

namespace headscope::analysis {

using kernels::Status;

// The same method at work in a layer below.
struct DecodeWalk::LowerLayer {
  LowerLayer(MeasuredHeadsPtr of, int32_t rows, const kernels::DecodeMethod& method,
             const kernels::ParameterValues& values, const kernels::RunOptions& options)
      : heads(std::move(of)),
        steps(*heads, {heads->layer, heads->first_qo_head}, rows),
        walk(steps, method, values, heads->Problem(), RecordedOf(*heads), options),
        o(static_cast<size_t>(int64_t{heads->num_qo_heads} * heads->ValueDim())),
        lse(static_cast<size_t>(heads->num_qo_heads)) {}

  Status Select(int64_t step, const kernels::RunOptions& options) {
    double dropped = 0;
    Status status = walk.Select(step, &selection, &dropped);
    if (!status.ok() || !walk.WantsOutput()) return status;
    const kernels::AttentionOutput output{
        kernels::ContiguousTensor<void>(o.data(), heads->num_qo_heads, 1, heads->ValueDim()), lse.data()};
    status = kernels::DecodeCpu(steps.Problem(heads->Problem(), step), selection, output, options);
    return status.ok() ? walk.Attended(step, selection, o.data(), lse.data()) : status;
  }

  const MeasuredHeadsPtr heads;
  const DecodeSteps steps;
  DecodeWalk walk;
  kernels::DecodeSelection selection;
  std::vector<float> o, lse;  // of a step
};

DecodeWalk::DecodeWalk(const DecodeSteps& steps, const kernels::DecodeMethod& method,
                       const kernels::ParameterValues& values, const kernels::AttentionProblem& whole,
                       const RecordedRows& recorded, const kernels::RunOptions& options)
    : steps_(steps), whole_(whole), recorded_(recorded), options_(options), driver_(method, values) {
  const std::vector<int32_t> wanted = method.LowerLayers(values, whole.layer);
  for (const MeasuredHeadsPtr& heads : recorded.lower) {
    if (std::ranges::find(wanted, heads->layer) == wanted.end()) continue;
    if (heads->num_kv_heads == 0) {
      other_kv_heads_.push_back(heads->layer);
      continue;
    }
    below_.push_back(std::make_unique<LowerLayer>(heads, static_cast<int32_t>(steps.count()), method, values, options));
  }
}

DecodeWalk::~DecodeWalk() = default;

void DecodeWalk::StopBy(std::stop_token stop) {
  for (const auto& layer : below_) layer->walk.StopBy(stop);
  options_.stop = std::move(stop);
}

Status DecodeWalk::Start() {
  for (const auto& layer : below_) {
    if (Status status = layer->walk.Start(); !status.ok()) return status;
  }
  if (started_ && driver_.AnyOrder()) return {};
  started_ = true;
  return driver_.Begin(steps_.Prompt(whole_, recorded_), options_);
}

Status DecodeWalk::SelectBelow(int64_t step, std::vector<const kernels::DecodeSelection*>* lower) {
  lower->assign(static_cast<size_t>(whole_.layer), nullptr);
  for (const auto& layer : below_) {
    if (Status status = layer->Select(step, options_); !status.ok()) return status;
    // A selection counts from the first token that its own layer sees.
    const bool same_tokens = layer->steps.FirstToken(step) == steps_.FirstToken(step);
    lower->at(static_cast<size_t>(layer->heads->layer)) = same_tokens ? &layer->selection : &no_choice_;
  }
  for (const int32_t layer : other_kv_heads_) lower->at(static_cast<size_t>(layer)) = &no_choice_;
  return {};
}

Status DecodeWalk::Select(int64_t step, kernels::DecodeSelection* selection, double* select_ms) {
  kernels::DecodeStep at = steps_.Step(whole_, step);
  std::vector<const kernels::DecodeSelection*> lower;
  if (!below_.empty() || !other_kv_heads_.empty()) {
    if (Status status = SelectBelow(step, &lower); !status.ok()) return status;
  }
  at.lower_layers = lower;
  if (Status status = driver_.Append(at, options_); !status.ok()) return status;
  const Stopwatch watch;
  Status status = driver_.Step(at, options_, selection);
  *select_ms += watch.Milliseconds();
  return status;
}

Status DecodeWalk::Attended(int64_t step, const kernels::DecodeSelection& selection, float* o, float* lse) {
  const kernels::AttentionOutput output{kernels::ContiguousTensor<void>(o, whole_.num_qo_heads, 1, whole_.ValueDim()),
                                        lse};
  return driver_.Attended(steps_.Step(whole_, step), selection, output, options_);
}

}  // namespace headscope::analysis
