// SPDX-License-Identifier: Apache-2.0
// Attention of a running model by methods of the registry: a prefill method for passes of several rows, a decode method
// for those of one, both on the CPU executors.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/decode_method.h"
#include "kernels/method.h"
#include "model/attention_backend.h"

namespace headscope::sparse_model {

struct MethodChoice {
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
};

// A decode method is shown the keys that a layer's window holds; prefill methods choose without knowing of a window,
// and all without sinks, as they do in comparisons; the executor keeps to both. Attend() throws DeviceError for a model
// on a GPU (its tensors are not in host memory), UsageError with the method's sentence where it refuses a
// problem.
std::unique_ptr<MethodAttention> AttendByMethods(const MethodChoice& choice);

}  // namespace headscope::sparse_model
