// SPDX-License-Identifier: Apache-2.0
#include "page_bounds.h"

#include <algorithm>
#include <limits>

#include "internal/element.h"

namespace headscope::kernels::internal {
namespace {

// Side by side, so that the compiler makes vector code of it; a fixed order of addition.
float Bound(const float* query, const float* least, const float* largest, size_t width) {
  constexpr size_t kLanes = 16;
  float lanes[kLanes] = {};
  size_t d = 0;
  for (; d + kLanes <= width; d += kLanes) {
    for (size_t i = 0; i < kLanes; ++i)
      lanes[i] += std::max(query[d + i] * least[d + i], query[d + i] * largest[d + i]);
  }
  float sum = 0;
  for (; d < width; ++d) sum += std::max(query[d] * least[d], query[d] * largest[d]);
  for (const float lane : lanes) sum += lane;
  return sum;
}

}  // namespace

void PageBounds::Clear() {
  num_tokens_ = 0;
  least_.clear();
  largest_.clear();
}

void PageBounds::Update(const AttentionProblem& problem, int32_t first_token) {
  const auto num_lists = static_cast<size_t>(int64_t{problem.batch} * problem.num_kv_heads);
  if (least_.size() != num_lists || first_token != first_token_ || problem.seq_k < num_tokens_) Clear();
  least_.resize(num_lists);
  largest_.resize(num_lists);
  head_dim_ = problem.head_dim;
  first_token_ = first_token;
  const int32_t num_pages = (problem.seq_k + page_size_ - 1) / page_size_;
  const auto width = static_cast<size_t>(head_dim_);
  std::vector<float> key(width);
  for (size_t list = 0; list < num_lists; ++list) {
    least_[list].resize(static_cast<size_t>(num_pages) * width, std::numeric_limits<float>::infinity());
    largest_[list].resize(static_cast<size_t>(num_pages) * width, -std::numeric_limits<float>::infinity());
    const int64_t offset = static_cast<int64_t>(list) / problem.num_kv_heads * problem.k.batch_stride +
                           static_cast<int64_t>(list) % problem.num_kv_heads * problem.k.head_stride;
    for (int32_t token = num_tokens_; token < problem.seq_k; ++token) {
      LoadRow(problem.k.data, problem.dtype, offset + token * problem.k.row_stride, head_dim_, key.data());
      float* const least = least_[list].data() + static_cast<size_t>(token / page_size_) * width;
      float* const largest = largest_[list].data() + static_cast<size_t>(token / page_size_) * width;
      for (size_t d = 0; d < width; ++d) {
        least[d] = std::min(least[d], key[d]);
        largest[d] = std::max(largest[d], key[d]);
      }
    }
  }
  num_tokens_ = problem.seq_k;
}

std::vector<float> PageBounds::Scores(int64_t list, const float* queries, int32_t num_queries) const {
  const auto width = static_cast<size_t>(head_dim_);
  std::vector<float> scores(static_cast<size_t>(NumPages()), 0.0f);
  for (size_t page = 0; page < scores.size(); ++page) {
    const float* const least = least_[static_cast<size_t>(list)].data() + page * width;
    const float* const largest = largest_[static_cast<size_t>(list)].data() + page * width;
    for (int32_t i = 0; i < num_queries; ++i) {
      const float* const query = queries + static_cast<size_t>(i) * width;
      scores[page] += Bound(query, least, largest, width);
    }
  }
  return scores;
}

namespace {

class PagedPolicy final : public DecodePolicy {
 public:
  PagedPolicy(const PagedSelector& method, const ParameterValues& values)
      : method_(method), values_(values), bounds_(values.Integer("page_size")) {}

  Status Begin(const DecodePrompt& prompt, const RunOptions&, DecodeEvictions*) override {
    bounds_.Clear();
    if (prompt.cache.seq_k > 0) bounds_.Update(prompt.cache, prompt.first_token);
    return {};
  }
  Status Append(const DecodeStep& step, const RunOptions&) override {
    bounds_.Update(step.problem, step.first_token);
    return {};
  }
  Status Step(const DecodeStep& step, const RunOptions& options, DecodeSelection* selection,
              DecodeEvictions*) override {
    return method_.SelectByBounds(step.problem, values_, bounds_, options, selection);
  }

 private:
  const PagedSelector& method_;
  const ParameterValues values_;
  PageBounds bounds_;
};

}  // namespace

std::unique_ptr<DecodePolicy> PagedSelector::NewPolicy(const ParameterValues& values) const {
  return std::make_unique<PagedPolicy>(*this, values);
}

Status PagedSelector::Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                             DecodeSelection* selection) const {
  PageBounds bounds(values.Integer("page_size"));
  bounds.Update(problem, 0);
  return SelectByBounds(problem, values, bounds, options, selection);
}

}  // namespace headscope::kernels::internal
