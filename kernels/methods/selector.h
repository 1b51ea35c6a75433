// SPDX-License-Identifier: Apache-2.0
// What every method shares: its spec, and a Select that checks the input first and never throws. A method defines
// Choose.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "kernels/decode_method.h"
#include "kernels/method.h"

namespace headscope::kernels::internal {

class PrefillSelector : public PrefillMethod {
 public:
  explicit PrefillSelector(MethodSpec spec) : spec_(std::move(spec)) {}
  const MethodSpec& spec() const final { return spec_; }
  Status Select(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const final;
  Status EnterBudgets(const AttentionProblem& problem, const ParameterValues& values, std::span<const double> first,
                      std::span<const double> second, const RunOptions& options,
                      std::unique_ptr<BudgetEntries>* entries) const final;

 protected:
  // What Select refuses before it calls Choose.
  Status CheckSelect(const AttentionProblem& problem, const ParameterValues& values) const;

 private:
  // The problem is well-formed, every query has a key at its own position, every parameter is present and legal. May
  // throw std::bad_alloc. *index counts only when the status is ok.
  virtual Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                        SparseIndex* index) const = 0;
  // As above, of one head; null where the method keeps something else than what either of two budgets takes.
  virtual std::unique_ptr<BudgetEntries> Enter(const AttentionProblem& /*problem*/, const ParameterValues& /*values*/,
                                               std::span<const double> /*first*/, std::span<const double> /*second*/,
                                               const RunOptions& /*options*/) const {
    return nullptr;
  }

  MethodSpec spec_;
};

class DecodeSelector : public DecodeMethod {
 public:
  explicit DecodeSelector(MethodSpec spec) : spec_(std::move(spec)) {}
  const MethodSpec& spec() const final { return spec_; }
  Status Select(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                DecodeSelection* selection) const final;

 private:
  // As above; besides, there is one query row and it is the newest token. Only a method that reads V is promised a V.
  virtual Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                        DecodeSelection* selection) const = 0;
  virtual bool ReadsV(const ParameterValues&, const AttentionProblem&) const { return false; }

  MethodSpec spec_;
};

}  // namespace headscope::kernels::internal
