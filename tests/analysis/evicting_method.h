// SPDX-License-Identifier: Apache-2.0
// A decode method with state: it evicts, weighs what it keeps and looks at its own attention. For tests of what drives
// it.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "kernels/decode_method.h"

namespace headscope::analysis::testing {

// What one policy has seen.
struct Seen {
  int32_t begins = 0, appends = 0, steps = 0, attended = 0;
  kernels::DecodePrompt prompt;
  std::vector<float> lse;  // of the last step
};

// Keeps pages of 4 tokens. Every step evicts, of list 0, the third oldest token that is left; weights leave evicted
// tokens out and count every other one of the rest twice.
class EvictingPolicy final : public kernels::DecodePolicy {
 public:
  explicit EvictingPolicy(Seen* seen) : seen_(seen) {}

  kernels::Status Begin(const kernels::DecodePrompt& prompt, const kernels::RunOptions&,
                        kernels::DecodeEvictions*) override {
    ++seen_->begins;
    seen_->prompt = prompt;
    evicted_ = 0;
    return {};
  }
  kernels::Status Append(const kernels::DecodeStep&, const kernels::RunOptions&) override {
    ++seen_->appends;
    return {};
  }
  kernels::Status Step(const kernels::DecodeStep& step, const kernels::RunOptions&, kernels::DecodeSelection* selection,
                       kernels::DecodeEvictions* evictions) override {
    ++seen_->steps;
    const kernels::AttentionProblem& p = step.problem;
    kernels::DecodeSelection made;
    made.num_qo_heads = p.num_qo_heads;
    made.num_kv_heads = p.num_kv_heads;
    made.page_size = 4;
    made.page_begin = {0};
    for (int32_t list = 0; list < p.num_kv_heads; ++list) {
      for (int32_t page = 0; page * 4 < p.seq_k; ++page) {
        made.pages.push_back(page);
        for (int32_t token = page * 4; token < page * 4 + 4; ++token) {
          const int32_t at = step.first_token + token;
          const bool gone = list == 0 && at >= 3 && at < 3 + evicted_;
          made.weights.push_back(gone ? 0.0f : at % 2 == 0 ? 1.0f : 2.0f);
        }
      }
      made.page_begin.push_back(static_cast<int64_t>(made.pages.size()));
    }
    made.elements_moved = 2 * int64_t{p.seq_k} * p.head_dim;
    *selection = made;
    evictions->Evict(0, 3 + evicted_++);
    return {};
  }
  kernels::Status Attended(const kernels::DecodeStep& step, const kernels::DecodeSelection&,
                           const kernels::AttentionOutput& output, const kernels::RunOptions&,
                           kernels::DecodeEvictions*) override {
    ++seen_->attended;
    seen_->lse.assign(output.lse, output.lse + step.problem.num_qo_heads);
    return {};
  }

 private:
  Seen* const seen_;
  int32_t evicted_ = 0;
};

class EvictingMethod final : public kernels::DecodeMethod {
 public:
  EvictingMethod() {
    spec_.name = "evicting";
    spec_.phase = kernels::Phase::kDecode;
    spec_.chosen_per = kernels::ChosenPer::kKvHead;
    spec_.keeps_state = spec_.needs_history = spec_.reads_output = true;
  }
  const kernels::MethodSpec& spec() const override { return spec_; }
  std::unique_ptr<kernels::DecodePolicy> NewPolicy(const kernels::ParameterValues&) const override {
    return std::make_unique<EvictingPolicy>(seen.get());
  }
  const std::unique_ptr<Seen> seen = std::make_unique<Seen>();

 private:
  kernels::MethodSpec spec_;
};

}  // namespace headscope::analysis::testing
