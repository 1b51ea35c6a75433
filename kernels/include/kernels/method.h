// SPDX-License-Identifier: Apache-2.0
// The registry's prefill methods: select, then attend (decode methods: kernels/decode_method.h).
//
// A prefill method is a selector: from Q, K (and its parameters) it makes one SparseIndex; one executor per device runs
// any of them. A new method is one new file under kernels/methods that defines a subclass and one line in
// kernels/methods/registry.h.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/attention_problem.h"
#include "kernels/budget_entries.h"
#include "kernels/method_spec.h"
#include "kernels/run_options.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::kernels {

class PrefillMethod {
 public:
  virtual ~PrefillMethod() = default;
  virtual const MethodSpec& spec() const = 0;

  // Makes the index of every sequence and query head of `problem` (host pointers; V is not read). On error *index is
  // unchanged.
  virtual Status Select(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                        SparseIndex* index) const = 0;

  // The parameter by which the model's layer attends to everything, as in the method's source; empty: the layer is
  // not dense. At 0 it makes no layer dense.
  virtual std::string_view DenseBy(const ParameterValues& /*values*/, int32_t /*layer*/) const { return {}; }
  bool IsDenseLayer(const ParameterValues& values, int32_t layer) const { return !DenseBy(values, layer).empty(); }

  // For a method with two budgets that keeps what either of them takes (kernels/budget_entries.h): where the ascending
  // values `first` and `second` of its budgets, in the spec's order, take the pairs of the problem's one head, with the
  // other parameters at `values`. Select must keep exactly those pairs. kUnsupported: the method is not of that kind,
  // and every setting is to be tried by Select. Other errors as Select's.
  virtual Status EnterBudgets(const AttentionProblem& /*problem*/, const ParameterValues& /*values*/,
                              std::span<const double> /*first*/, std::span<const double> /*second*/,
                              const RunOptions& /*options*/, std::unique_ptr<BudgetEntries>* /*entries*/) const {
    return {StatusCode::kUnsupported, "method " + spec().name + " says of single settings what they keep, not of all"};
  }
};

// Every registered method, in the order in which tables show them; "dense" is first.
const std::vector<const PrefillMethod*>& PrefillMethods();
// nullptr when there is none of that name.
const PrefillMethod* FindPrefillMethod(std::string_view name);
// The method whose spec says that it is the baseline.
const PrefillMethod& PrefillBaseline();

}  // namespace headscope::kernels
