// SPDX-License-Identifier: Apache-2.0
// What some prefill methods have to know of a prompt that comes in several passes, as a running model's does: its whole
// length, and the queries of earlier passes. A comparison has the whole prompt in one problem.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/method.h"

namespace headscope::kernels {

// A prefill method some of whose values say something else for prompts of other lengths.
class GoesByPromptLength {
 public:
  virtual ~GoesByPromptLength() = default;
  // Values that say of any pass what the given ones say of a prompt of num_tokens > 0 tokens.
  virtual ParameterValues AtPromptLength(ParameterValues values, int64_t num_tokens) const = 0;
};

// The values of a pass of a prompt of so many tokens; `values` themselves where the length is not known (0) or does not
// matter. Without this a method takes the tokens that its problem's rows see for the prompt.
inline ParameterValues AtPromptLength(const PrefillMethod& method, const ParameterValues& values, int64_t num_tokens) {
  const auto* const by_length = dynamic_cast<const GoesByPromptLength*>(&method);
  return by_length == nullptr || num_tokens <= 0 ? values : by_length->AtPromptLength(values, num_tokens);
}

// What a method has made of a prompt's passes so far and later ones need not make again.
class KeptOfPasses {
 public:
  virtual ~KeptOfPasses() = default;
};

// Queries of the rows before a problem's first, up to it: of positions [first_position, first_position + num_rows).
struct EarlierQueries {
  StridedTensor<const void> q;  // [batch, num_qo_heads, num_rows, head_dim], of the problem's dtype, in host memory
  int32_t first_position = 0;
  int32_t num_rows = 0;
  // Of the passes of these very rows, by one method with one set of values: handed to its next pass, which adds to it
  // (nullptr: not kept). Empty before the first pass, and where a pass was not the next one or has failed.
  std::unique_ptr<KeptOfPasses>* kept = nullptr;
};

// A prefill method that goes by queries of the prompt before the rows that it chooses for. Where they are not there it
// takes them for nothing, as Select does of a problem that is the end of a prompt.
class GoesByEarlierQueries {
 public:
  virtual ~GoesByEarlierQueries() = default;
  // PrefillMethod::Select, of a problem behind these queries: errors as its own.
  virtual Status SelectBehind(const EarlierQueries& earlier, const AttentionProblem& problem,
                              const ParameterValues& values, const RunOptions& options, SparseIndex* index) const = 0;
};

}  // namespace headscope::kernels
