// SPDX-License-Identifier: Apache-2.0
// Q, K and V of a layer that a trace recorded, as a benchmark's problem.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/trace_reader.h"
#include "kernels/attention_problem.h"
#include "kernels/seeded_problem.h"

namespace headscope::app::bench {

class TraceHeads {
 public:
  // "FILE" or "FILE:LAYER"; without a number, the first recorded layer that will do. A layer will do where all of its
  // heads and rows were recorded and every row sees all keys up to its own, with neither soft cap nor sinks. Throws
  // BadInputError.
  explicit TraceHeads(const std::string& text);

  const std::string& name() const { return name_; }  // "trace FILE, layer 3"
  int32_t num_tokens() const { return static_cast<int32_t>(reader_.num_tokens()); }
  float scale() const { return facts().softmax_scale; }
  kernels::DType dtype() const;
  // Sets heads and head_dim.
  void SetShape(kernels::SeededProblem* shape) const;

  // The tensor of the first seq_k tokens (of Q the last seq_q rows among them) in `dtype`, heads one after the other.
  void Fill(const kernels::SeededProblem& shape, kernels::SeededTensor tensor, kernels::DType dtype, void* out) const;

 private:
  const data::LayerFacts& facts() const { return reader_.layer(slot_); }

  data::TraceReader reader_;
  int32_t slot_ = 0;
  std::string name_;
};

}  // namespace headscope::app::bench
