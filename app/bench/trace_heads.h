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

// Which layers a benchmark takes: those whose rows see all keys up to their own, with neither soft cap nor sinks and
// with values of the keys' head_dim; or windows, soft caps, sinks and other values as well.
enum class TakenLayers : uint8_t { kPlain, kAny };

class TraceHeads {
 public:
  // "FILE" or "FILE:LAYER"; without a number, the first recorded layer that is plain or, where none is, that `taken`
  // lets be. All heads and rows of the layer must have been recorded. Throws BadInputError.
  explicit TraceHeads(const std::string& text, TakenLayers taken = TakenLayers::kAny);

  const std::string& name() const { return name_; }  // "trace FILE, layer 3"
  const data::TraceReader& reader() const { return reader_; }
  int32_t num_tokens() const { return static_cast<int32_t>(reader_.num_tokens()); }
  const data::LayerFacts& facts() const { return reader_.layer(slot_); }
  int32_t layer() const { return reader_.layout().layers[static_cast<size_t>(slot_)]; }
  kernels::DType dtype() const;
  // Sets heads and head_dim.
  void SetShape(kernels::SeededProblem* shape) const;

  // The tensor of the seq_k tokens from `first_token` on (of Q the last seq_q rows among them) in `dtype`, heads one
  // after the other.
  void Fill(const kernels::SeededProblem& shape, kernels::SeededTensor tensor, kernels::DType dtype,
            int32_t first_token, void* out) const;

 private:
  data::TraceReader reader_;
  int32_t slot_ = 0;
  std::string name_;
};

}  // namespace headscope::app::bench
