// SPDX-License-Identifier: Apache-2.0
// Upper bounds of the scores of a page's tokens, from the least and the largest key component: Quest's estimate.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/attention_problem.h"
#include "kernels/decode_policy.h"
#include "selector.h"

namespace headscope::kernels::internal {

// Least and largest components of every page of a cache: [lists, pages, head_dim] each. Grows with the cache.
class PageBounds {
 public:
  explicit PageBounds(int32_t page_size) : page_size_(page_size) {}
  void Clear();
  // Brings the bounds up to the problem's tokens; token 0 of `problem` is token `first_token` of the sequence. Pages
  // are those of the problem: where first_token moves, they are made anew.
  void Update(const AttentionProblem& problem, int32_t first_token);
  int32_t NumPages() const { return (num_tokens_ + page_size_ - 1) / page_size_; }
  // Of every page: the sum over components of the larger of q * least and q * largest, summed over `num_queries` rows
  // of `queries` [num_queries, head_dim].
  std::vector<float> Scores(int64_t list, const float* queries, int32_t num_queries) const;

 private:
  const int32_t page_size_;
  int32_t head_dim_ = 0, first_token_ = 0, num_tokens_ = 0;
  std::vector<std::vector<float>> least_, largest_;  // [list]
};

// A method that chooses a step's tokens by the bounds of pages, which grow with the cache from step to step. Its
// parameter `page_size` has a page's tokens.
class PagedSelector : public DecodeSelector {
 public:
  using DecodeSelector::DecodeSelector;
  std::unique_ptr<DecodePolicy> NewPolicy(const ParameterValues& values) const final;
  // The bounds are those of the problem's tokens.
  virtual Status SelectByBounds(const AttentionProblem& problem, const ParameterValues& values,
                                const PageBounds& bounds, const RunOptions& options,
                                DecodeSelection* selection) const = 0;

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                DecodeSelection* selection) const final;
};

}  // namespace headscope::kernels::internal
