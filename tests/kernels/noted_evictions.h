// SPDX-License-Identifier: Apache-2.0
// A decode method that notes which tokens another one's policy lets go, and does all else as that one does.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "kernels/decode_method.h"
#include "kernels/decode_policy.h"

namespace headscope::kernels::testing {

class NotedEvictions final : public DecodeMethod {
 public:
  // `method` outlives it.
  explicit NotedEvictions(const DecodeMethod& method) : method_(method) {}

  const MethodSpec& spec() const override { return method_.spec(); }
  std::unique_ptr<DecodePolicy> NewPolicy(const ParameterValues& values) const override {
    return std::make_unique<Policy>(method_.NewPolicy(values), evicted_.get());
  }

  // Tokens of a list that the newest generation has let go so far, those of its last step included.
  int64_t Count(int64_t list) const {
    int64_t count = 0;
    for (const auto& [of_list, token] : *evicted_) count += of_list == list ? 1 : 0;
    return count;
  }

 private:
  using Evicted = std::set<std::pair<int64_t, int32_t>>;

  class Policy final : public DecodePolicy {
   public:
    Policy(std::unique_ptr<DecodePolicy> policy, Evicted* evicted) : policy_(std::move(policy)), evicted_(*evicted) {}

    Status Begin(const DecodePrompt& prompt, const RunOptions& options, DecodeEvictions* evictions) override {
      evicted_.clear();
      return Note(policy_->Begin(prompt, options, evictions), *evictions);
    }
    Status Append(const DecodeStep& step, const RunOptions& options) override { return policy_->Append(step, options); }
    Status Step(const DecodeStep& step, const RunOptions& options, DecodeSelection* selection,
                DecodeEvictions* evictions) override {
      return Note(policy_->Step(step, options, selection, evictions), *evictions);
    }
    Status Attended(const DecodeStep& step, const DecodeSelection& selection, const AttentionOutput& output,
                    const RunOptions& options, DecodeEvictions* evictions) override {
      return Note(policy_->Attended(step, selection, output, options, evictions), *evictions);
    }
    void End() override { policy_->End(); }

   private:
    Status Note(Status status, const DecodeEvictions& evictions) {
      for (const auto& [list, token] : evictions.tokens()) evicted_.insert({list, token});
      return status;
    }

    std::unique_ptr<DecodePolicy> policy_;
    Evicted& evicted_;
  };

  const DecodeMethod& method_;
  std::unique_ptr<Evicted> evicted_ = std::make_unique<Evicted>();
};

}  // namespace headscope::kernels::testing
