// SPDX-License-Identifier: Apache-2.0
// The registry's decode methods: a method chooses tokens or pages per KV head for one new query; the decode executor
// runs the choice. A new method is one new file under kernels/methods that defines a subclass and one line in
// kernels/methods/registry.h.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/attention_problem.h"
#include "kernels/decode_policy.h"
#include "kernels/decode_selection.h"
#include "kernels/method_spec.h"
#include "kernels/run_options.h"
#include "kernels/status.h"

namespace headscope::kernels {

class DecodeMethod {
 public:
  virtual ~DecodeMethod() = default;
  virtual const MethodSpec& spec() const = 0;

  // One step from nothing but its problem, which has seq_q == 1 and first_position == seq_k - 1 (the query token's own
  // K and V are the last ones). V is read only for a mean-value term. kUnsupported: a method that chooses by the steps
  // before as well (spec().needs_history), which its policy alone can run.
  virtual Status Select(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                        DecodeSelection* selection) const;

  // The method at work on a generation; DecodeDriver runs it. This one calls Select() at every step.
  virtual std::unique_ptr<DecodePolicy> NewPolicy(const ParameterValues& values) const;

  // Values with which it names the same tokens and makes nothing of V, for methods that go on from these tokens.
  virtual ParameterValues ForTokensAlone(ParameterValues values) const { return values; }

  // Values with which it names about so many tokens, of a method that others go on from; this one sets the budget.
  virtual ParameterValues WithCandidates(ParameterValues values, int tokens) const;
  // Whether with these values a step cannot be had without those before; of a method that goes on from another one, as
  // that one says.
  virtual bool NeedsHistory(const ParameterValues& /*values*/) const { return spec().needs_history; }

  // The parameter by which the model's layer attends to everything, as in the method's source; empty: the layer is
  // not dense. At 0 it makes no layer dense. Such a layer's steps are the baseline's: neither the method's policy nor a
  // kernel of its own has a part in them.
  virtual std::string_view DenseBy(const ParameterValues& /*values*/, int32_t /*layer*/) const { return {}; }
  bool IsDenseLayer(const ParameterValues& values, int32_t layer) const { return !DenseBy(values, layer).empty(); }
  // The values that took effect on this problem, where a value stands for another one ("auto") or is cut to what there
  // is; the given ones otherwise.
  virtual ParameterValues Used(const ParameterValues& values, const AttentionProblem& /*problem*/) const {
    return values;
  }

  // How many of the prompt's last queries, with their LSE, the method begins with: a running model keeps as many.
  // kAllRows: it takes as many as there are.
  static constexpr int32_t kAllRows = std::numeric_limits<int32_t>::max();
  virtual int32_t PromptRows(const ParameterValues& /*values*/) const { return 0; }

  // What of DecodePrompt the method reads that not everybody has: a running model makes it for those that ask.
  struct PromptInputs {
    bool q_pre_rope = false;  // with the layer's RoPE
    bool value_norms = false;
  };
  virtual PromptInputs Inputs(const ParameterValues& /*values*/) const { return {}; }

  // The share of the tokens that these values tell the method to let go of or to leave out; none where they say
  // something else.
  virtual std::optional<double> AskedCompression(const ParameterValues& values) const;
  // Whether some steps leave out components of keys (DecodeSelection::components), which executors on the CPU alone do.
  virtual bool LeavesOutComponents() const { return false; }

  // Whether with these values the KV heads of a layer share one budget, so that what one of them keeps depends on what
  // the others would: a head without them has an even share.
  virtual bool SharesLayerBudget(const ParameterValues& /*values*/) const { return false; }
  // Whether with these values all heads of a layer keep what they choose together: one without the others chooses for
  // itself.
  virtual bool ChoosesForLayer(const ParameterValues& /*values*/) const { return false; }

  // The lower layers whose selection of the same step the method takes in a model's `layer` (DecodeStep::lower_layers).
  virtual std::vector<int32_t> LowerLayers(const ParameterValues& /*values*/, int32_t /*layer*/) const { return {}; }
};

// Every registered method, in the order in which tables show them; "dense" is first.
const std::vector<const DecodeMethod*>& DecodeMethods();
// nullptr when there is none of that name.
const DecodeMethod* FindDecodeMethod(std::string_view name);
// The method whose spec says that it is the baseline.
const DecodeMethod& DecodeBaseline();

}  // namespace headscope::kernels
