// SPDX-License-Identifier: Apache-2.0
#include "sparse_model/method_attention.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/check_status.h"
#include "base/errors.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"
#include "kernels/cpu_scores.h"
#include "kernels/decode_driver.h"

namespace headscope::sparse_model {
namespace {

using kernels::Status;
using kernels::StatusCode;

kernels::AttentionProblem ProblemOf(const model::AttentionCall& call) {
  const model::AttentionLayer& facts = *call.facts;
  const auto tensor = [](const model::AttentionCall::Tensor& from) {
    return kernels::StridedTensor<const void>{from.data, 0, from.head_stride, from.row_stride};
  };
  kernels::AttentionProblem problem;
  problem.num_qo_heads = facts.num_qo_heads;
  problem.num_kv_heads = facts.num_kv_heads;
  problem.head_dim = facts.head_dim;
  problem.v_head_dim = facts.v_head_dim;
  problem.seq_q = static_cast<int32_t>(call.num_rows);
  problem.seq_k = static_cast<int32_t>(call.num_tokens);
  problem.first_position = static_cast<int32_t>(call.num_tokens - call.num_rows);
  problem.dtype = call.is_bf16 ? kernels::DType::kBFloat16 : kernels::DType::kFloat32;
  problem.q = tensor(call.q);
  problem.k = tensor(call.k);
  problem.v = tensor(call.v);
  problem.scale = static_cast<float>(facts.scale);
  problem.soft_cap = static_cast<float>(facts.soft_cap);
  problem.window = facts.window;
  if (!facts.sinks.empty()) problem.sinks = facts.sinks.data();
  return problem;
}

void Require(const Status& status, const model::AttentionCall& call, const std::string& method) {
  if (!status.ok()) CheckStatus(status, method + " in layer " + std::to_string(call.layer));
}

// Round to nearest, ties to even; NaN stays NaN.
uint16_t ToBf16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  if (value != value) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// First column of a row that the layer's window lets it see, as far as `first`.
int64_t SeenFrom(const kernels::AttentionProblem& problem, int64_t row) {
  return problem.window == 0 ? 0 : std::max<int64_t>(0, problem.first_position + row - problem.window + 1);
}

class CpuMethods final : public MethodAttention {
 public:
  explicit CpuMethods(const MethodChoice& choice)
      : prefill_(choice.prefill != nullptr ? *choice.prefill : kernels::PrefillBaseline()),
        decode_(choice.decode != nullptr ? *choice.decode : kernels::DecodeBaseline()),
        prefill_values_(choice.prefill != nullptr ? choice.prefill_values : kernels::ParameterValues(prefill_.spec())),
        decode_values_(choice.decode != nullptr ? choice.decode_values : kernels::ParameterValues(decode_.spec())),
        options_{.num_threads = choice.num_threads},
        trace_lse_(choice.trace_lse) {}

  void Attend(const model::AttentionCall& call) override {
    if (call.on_device) {
      throw DeviceError("methods run in a model on the CPU only: run the model with device cpu");
    }
    const kernels::AttentionProblem problem = ProblemOf(call);
    const int64_t rows = int64_t{problem.num_qo_heads} * problem.seq_q;
    auto* o = static_cast<float*>(call.o);
    if (call.is_bf16) {
      wide_.resize(static_cast<size_t>(rows * problem.ValueDim()));
      o = wide_.data();
    }
    const kernels::AttentionOutput output{
        kernels::ContiguousTensor<void>(o, problem.num_qo_heads, problem.seq_q, problem.ValueDim()), call.lse};
    if (call.num_rows == 1) {
      Decode(call, problem, output);
    } else {
      Prefill(call, problem, output);
    }
    if (trace_lse_)
      Require(kernels::RowLse(problem, problem.window, options_, call.lse), call, "the log-sum-exp of all keys");
    for (int64_t row = 0; row < problem.seq_q; ++row) {
      pairs_.seen += problem.num_qo_heads * (problem.first_position + row + 1 - SeenFrom(problem, row));
    }
    if (call.is_bf16) std::transform(wide_.begin(), wide_.end(), static_cast<uint16_t*>(call.o), ToBf16);
  }

  void Rewind(int64_t) override { steps_.clear(); }

  KeptPairs Pairs() const override { return pairs_; }

 private:
  void Prefill(const model::AttentionCall& call, const kernels::AttentionProblem& problem,
               const kernels::AttentionOutput& output) {
    kernels::SparseIndex index;
    Require(prefill_.Select(problem, prefill_values_, options_, &index), call, prefill_.spec().name);
    Require(kernels::AttendCpu(problem, index.View(), output, options_), call, prefill_.spec().name);
    std::vector<kernels::ColumnRange> ranges;
    for (int32_t head = 0; head < problem.num_qo_heads; ++head) {
      for (int32_t row = 0; row < problem.seq_q; ++row) {
        ranges.clear();
        kernels::AppendKeptRanges(index.View(), 0, head, row, &ranges);
        const int64_t first = SeenFrom(problem, row);
        for (const kernels::ColumnRange& range : ranges)
          pairs_.kept += std::max<int64_t>(0, range.end - std::max<int64_t>(range.begin, first));
      }
    }
  }

  // A layer's decode steps, one after the other. The cache of the steps before must stay where it is for a method that
  // keeps what it saw of them.
  struct LayerSteps {
    std::unique_ptr<kernels::DecodeDriver> driver;
    int64_t num_tokens = 0;  // of the last step
    const void* keys = nullptr;
  };

  // The step as a method sees it: the keys that the layer's window holds, and no window.
  static kernels::DecodeStep StepOf(const kernels::AttentionProblem& whole) {
    const auto first = static_cast<int32_t>(SeenFrom(whole, 0));
    const auto from = [&](kernels::StridedTensor<const void> tensor) {
      tensor.data = static_cast<const char*>(tensor.data) + first * tensor.row_stride * SizeOf(whole.dtype);
      return tensor;
    };
    kernels::DecodeStep step{.problem = whole, .first_token = first};
    step.problem.k = from(whole.k);
    step.problem.v = from(whole.v);
    step.problem.seq_k -= first;
    step.problem.first_position -= first;
    step.problem.window = 0;
    return step;
  }

  kernels::DecodeDriver& DriverOf(const model::AttentionCall& call, const kernels::DecodeStep& step) {
    LayerSteps& steps = steps_[call.layer];
    if (steps.driver == nullptr) steps.driver = std::make_unique<kernels::DecodeDriver>(decode_, decode_values_);
    const bool follows = steps.keys != nullptr && steps.num_tokens + 1 == call.num_tokens;
    if (follows && steps.keys != call.k.data && !steps.driver->AnyOrder()) {
      throw UsageError(decode_.spec().name + " in layer " + std::to_string(call.layer) +
                       ": the model's cache has moved; reserve room for all tokens first");
    }
    if (!follows || steps.keys != call.k.data) {
      kernels::DecodePrompt prompt;
      prompt.first_token = step.first_token;
      prompt.cache = step.problem;
      prompt.cache.seq_q = 0;  // the prompt's queries are not at hand any more
      --prompt.cache.seq_k;
      prompt.cache.first_position = prompt.cache.seq_k;
      prompt.layer = call.layer;
      Require(steps.driver->Begin(prompt, options_), call, decode_.spec().name);
    }
    steps.num_tokens = call.num_tokens;
    steps.keys = call.k.data;
    return *steps.driver;
  }

  void Decode(const model::AttentionCall& call, const kernels::AttentionProblem& problem,
              const kernels::AttentionOutput& output) {
    const kernels::DecodeStep step = StepOf(problem);
    kernels::DecodeDriver& driver = DriverOf(call, step);
    kernels::DecodeSelection selection;
    const std::string& name = decode_.spec().name;
    Require(driver.Append(step, options_), call, name);
    Require(driver.Step(step, options_, &selection), call, name);
    Require(kernels::DecodeCpu(step.problem, selection, output, options_), call, name);
    if (driver.WantsOutput()) Require(driver.Attended(step, selection, output, options_), call, name);
    pairs_.kept += problem.GroupSize() * kernels::NumTokens(selection, step.problem.seq_k);
  }

  const kernels::PrefillMethod& prefill_;
  const kernels::DecodeMethod& decode_;
  const kernels::ParameterValues prefill_values_, decode_values_;
  const kernels::RunOptions options_;
  const bool trace_lse_;
  std::map<int32_t, LayerSteps> steps_;  // by layer
  std::vector<float> wide_;
  KeptPairs pairs_;
};

}  // namespace

std::unique_ptr<MethodAttention> AttendByMethods(const MethodChoice& choice) {
  return std::make_unique<CpuMethods>(choice);
}

}  // namespace headscope::sparse_model
