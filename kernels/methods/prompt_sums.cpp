// SPDX-License-Identifier: Apache-2.0
#include "prompt_sums.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace headscope::kernels::internal {
namespace {

// Three different sums of the same words: prompts are told apart by 192 bits.
class PromptWords {
 public:
  void Add(uint64_t word) {
    constexpr PromptSums::Fingerprint kFactors = {0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f, 0xff51afd7ed558ccd};
    for (size_t i = 0; i < sums_.size(); ++i) {
      sums_[i] = std::rotl(sums_[i] ^ word, 23 + 6 * static_cast<int>(i)) * kFactors[i];
    }
  }
  template <typename T>
  void AddNumber(T number) {
    uint64_t word = 0;
    std::memcpy(&word, &number, sizeof(number));
    Add(word);
  }
  void AddBytes(const void* bytes, size_t size) {
    const auto* at = static_cast<const char*>(bytes);
    for (; size >= sizeof(uint64_t); at += sizeof(uint64_t), size -= sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, at, sizeof(word));
      Add(word);
    }
    uint64_t rest = 0;
    std::memcpy(&rest, at, size);
    Add(rest);
  }
  const PromptSums::Fingerprint& sums() const { return sums_; }

 private:
  PromptSums::Fingerprint sums_ = {1, 2, 3};
};

void AddRows(const StridedTensor<const void>& tensor, const AttentionProblem& problem, int32_t num_heads,
             int32_t num_rows, PromptWords* words) {
  const auto size = static_cast<int64_t>(SizeOf(problem.dtype));
  for (int64_t sequence = 0; sequence < problem.batch; ++sequence) {
    for (int64_t head = 0; head < num_heads; ++head) {
      for (int64_t row = 0; row < num_rows; ++row) {
        const int64_t at = sequence * tensor.batch_stride + head * tensor.head_stride + row * tensor.row_stride;
        words->AddBytes(static_cast<const char*>(tensor.data) + at * size,
                        static_cast<size_t>(problem.head_dim * size));
      }
    }
  }
}

}  // namespace

std::optional<PromptSums::Fingerprint> PromptSums::Of(const DecodePrompt& prompt) {
  const AttentionProblem& cache = prompt.cache;
  if (!prompt.is_tried_again || cache.seq_q < kLeastRows) return std::nullopt;
  if (prompt.unchanged > 0 || prompt.returns_to > 0) return std::nullopt;
  if (int64_t{cache.batch} * cache.num_qo_heads * cache.seq_k > kMostNumbers) return std::nullopt;
  PromptWords words;
  for (const int32_t number : {cache.batch, cache.num_qo_heads, cache.num_kv_heads, cache.head_dim, cache.seq_q,
                               cache.seq_k, cache.first_position, cache.window, static_cast<int32_t>(cache.dtype)})
    words.AddNumber(number);
  words.AddNumber(cache.EffectiveScale());
  words.AddNumber(cache.soft_cap);
  AddRows(cache.q, cache, cache.num_qo_heads, cache.seq_q, &words);
  AddRows(cache.k, cache, cache.num_kv_heads, cache.seq_k, &words);
  words.AddNumber(prompt.lse != nullptr);
  for (int64_t sequence = 0; prompt.lse != nullptr && sequence < cache.batch; ++sequence) {
    for (int64_t head = 0; head < cache.num_qo_heads; ++head) {
      words.AddBytes(prompt.lse + sequence * prompt.lse_batch_stride + head * prompt.lse_head_stride,
                     static_cast<size_t>(cache.seq_q) * sizeof(float));
    }
  }
  return words.sums();
}

std::shared_ptr<const PromptSums::Columns> PromptSums::Find(const Fingerprint& prompt) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(kept_, prompt, &Kept::prompt);
  if (found == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found);
  return kept_.front().columns;
}

void PromptSums::Keep(const Fingerprint& prompt, std::shared_ptr<const Columns> columns) {
  const std::lock_guard lock(mutex_);
  std::erase_if(kept_, [&](const Kept& kept) { return kept.prompt == prompt; });
  kept_.push_front({prompt, std::move(columns)});
  if (kept_.size() > kMostPrompts) kept_.pop_back();
}

}  // namespace headscope::kernels::internal
