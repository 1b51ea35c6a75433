// SPDX-License-Identifier: Apache-2.0
// Attention of a running model by methods of the registry: a prefill method for the passes of a prompt, a decode method
// for the steps behind it. They attend where the model runs, and select there where they can.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/decode_method.h"
#include "kernels/method.h"
#include "model/attention_backend.h"

namespace headscope::sparse_model {

// A prefill method with its values.
struct PrefillSetting {
  const kernels::PrefillMethod* method = nullptr;
  kernels::ParameterValues values;
  friend bool operator==(const PrefillSetting&, const PrefillSetting&) = default;
};

// What the query head of a layer has in a prompt of so many tokens (of passes that nobody announced, as many as there
// are so far). What it returns lives as long as it does. May throw UsageError: there is nothing for that head or
// length.
using PrefillOfHead = std::function<const PrefillSetting&(int32_t layer, int32_t qo_head, int64_t prompt_tokens)>;

struct MethodChoice {
  // In place of `prefill`, where it is given: heads have methods of their own. Neighbouring heads with equal settings
  // run together; a query head whose setting its KV head's others do not share selects by itself.
  PrefillOfHead prefill_of_head = nullptr;
  const kernels::PrefillMethod* prefill = nullptr;  // null: the dense baseline
  kernels::ParameterValues prefill_values;          // of the prefill method; unused without one
  const kernels::DecodeMethod* decode = nullptr;
  kernels::ParameterValues decode_values;
  int32_t num_threads = 0;  // 0: all cores
  // The log-sum-exp handed back counts every key that the layer lets a row see, not the kept ones alone: a pass over
  // all scores more. What a trace records is a probability by it.
  bool trace_lse = false;
};

// What was attended since the backend was made: pairs of a row and a key that was kept, and all that a layer lets a row
// see, over all query heads.
struct KeptPairs {
  int64_t kept = 0;
  int64_t seen = 0;
};

class MethodAttention : public model::AttentionBackend {
 public:
  virtual KeptPairs Pairs() const = 0;
  // Where selection did not run on the model's device, why not, a sentence each, in the order in which it came up.
  virtual const std::vector<std::string>& Notes() const = 0;
};

// A pass of a prompt is the prefill method's, however long; of passes that nobody announced as a prompt's, those of
// several rows. A decode method is shown the keys that a layer's window holds, and begins with the prompt's last
// queries, as many as it asks for and at most 1024 of those that ask for all; prefill methods choose without knowing of
// a window, and all without sinks, as they do in comparisons; the executor keeps to both. Prefill methods are told how
// long the whole prompt is, and those that go by its earlier queries (kernels/prompt_passes.h) are shown these, which
// are kept in host memory until the sequence is taken back.
//
// For a model on a GPU the prefill method's own selector there chooses, and the decode method's own step, if it has one
// that takes the layer; what such a step keeps beside the model's cache lies on the GPU as well. Everything else
// chooses on the CPU, over a copy of Q, K and V, which costs a second cache in host memory (Notes()). Attend() throws
// UsageError with the method's sentence where it refuses a problem, DeviceError for what the GPU's executors do not
// take and for a build without CUDA.
std::unique_ptr<MethodAttention> AttendByMethods(const MethodChoice& choice);

}  // namespace headscope::sparse_model
