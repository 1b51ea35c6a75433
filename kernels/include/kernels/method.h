// The method registry: select, then attend.
//
// A prefill method is a selector: from Q, K (and its parameters) it makes one SparseIndex; one executor per device runs
// any of them. A decode method chooses tokens per KV head for one new query; the decode executor runs the choice. A new
// method is one new file under kernels/methods that defines a subclass and one line in kernels/methods/registry.cpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/attention_problem.h"
#include "kernels/budget_entries.h"
#include "kernels/method_spec.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::kernels {

// How a selector or executor runs on the CPU.
struct RunOptions {
  int32_t num_threads = 0;  // 0: all cores
  const std::atomic<bool>* cancelled =
      nullptr;  // looked at between row tiles; kCancelled is returned soon after it turns true
};

class PrefillMethod {
 public:
  virtual ~PrefillMethod() = default;
  virtual const MethodSpec& spec() const = 0;

  // Makes the index of every sequence and query head of `problem` (host pointers; V is not read). On error *index is
  // unchanged.
  virtual Status Select(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                        SparseIndex* index) const = 0;

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

// What a decode method keeps for one query token per sequence: a sorted token list per (batch, KV head), and SparQ's
// mean-value term.
struct DecodeSelection {
  int32_t batch = 1;
  int32_t num_qo_heads = 0;
  int32_t num_kv_heads = 0;
  std::vector<int64_t> token_begin;  // [batch * num_kv_heads + 1], CSR
  std::vector<int32_t> tokens;       // strictly increasing inside a list
  // y = alpha * attention over the tokens + (1 - alpha) * mean_value. Empty: alpha is 1 and there is no mean-value
  // term.
  std::vector<float> alpha;       // [batch, num_qo_heads], in [0, 1]
  std::vector<float> mean_value;  // [batch, num_kv_heads, head_dim]
  // Elements of K, V and the mean moved per KV head by selection and attention (SparQ, equation 11, and its
  // equivalents), for the cost columns.
  int64_t elements_moved = 0;
};

// What a decode method keeps beside a KV cache while that grows, on the CPU. Making it and moving it on from token to
// token is the cache's upkeep and no part of a step's selection.
class DecodeMemory {
 public:
  virtual ~DecodeMemory() = default;
  // Brings up to date what Select() reads for a step over the cache's tokens from `first` on.
  virtual Status MoveTo(const AttentionProblem& step, int32_t first, const RunOptions& options) = 0;
  // As DecodeMethod::Select, of a step that MoveTo() has been called for.
  virtual Status Select(const AttentionProblem& step, int32_t first, const RunOptions& options,
                        DecodeSelection* selection) const = 0;
};

class DecodeMethod {
 public:
  virtual ~DecodeMethod() = default;
  virtual const MethodSpec& spec() const = 0;

  // Makes what the method keeps beside `cache`, whose K and V outlive it (its queries are not looked at): *memory stays
  // null where it keeps nothing. Errors: kOutOfMemory, kCancelled.
  virtual Status Remember(const AttentionProblem& /*cache*/, const ParameterValues& /*values*/,
                          const RunOptions& /*options*/, std::unique_ptr<DecodeMemory>* /*memory*/) const {
    return {};
  }

  // `problem` has seq_q == 1 and first_position == seq_k - 1 (the query token's own K and V are the last ones). V is
  // read only for a mean-value term.
  virtual Status Select(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                        DecodeSelection* selection) const = 0;
};

// Every registered method, in the order in which tables show them; "dense" is first in both.
const std::vector<const PrefillMethod*>& PrefillMethods();
const std::vector<const DecodeMethod*>& DecodeMethods();
// nullptr when there is none of that name.
const PrefillMethod* FindPrefillMethod(std::string_view name);
const DecodeMethod* FindDecodeMethod(std::string_view name);

}  // namespace headscope::kernels
