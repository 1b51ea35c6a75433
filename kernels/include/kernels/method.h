// The method registry: select, then attend.
//
// A prefill method is a selector: from Q, K (and its parameters) it makes one SparseIndex; one executor per device runs
// any of them. A decode method chooses tokens per KV head for one new query; the decode executor runs the choice. A new
// method is one new file under kernels/methods that defines a subclass and one line in kernels/methods/registry.cpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/attention_problem.h"
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

class DecodeMethod {
 public:
  virtual ~DecodeMethod() = default;
  virtual const MethodSpec& spec() const = 0;

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
