// The registry's decode methods: a method chooses tokens per KV head for one new query; the decode executor runs the
// choice. A new method is one new file under kernels/methods that defines a subclass and one line in
// kernels/methods/registry.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/attention_problem.h"
#include "kernels/decode_selection.h"
#include "kernels/method_spec.h"
#include "kernels/run_options.h"
#include "kernels/status.h"

namespace headscope::kernels {

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

// Every registered method, in the order in which tables show them; "dense" is first.
const std::vector<const DecodeMethod*>& DecodeMethods();
// nullptr when there is none of that name.
const DecodeMethod* FindDecodeMethod(std::string_view name);
// The method whose spec says that it is the baseline.
const DecodeMethod& DecodeBaseline();

}  // namespace headscope::kernels
