// SPDX-License-Identifier: Apache-2.0
// BigBird: a window, global tokens and random blocks.
//
// Source: Big Bird: Transformers for Longer Sequences, section 2 and Table 6 (blocks of 64; 2 global, 3 window and 3
// random blocks). In a causal model global tokens are columns: their rows see nothing but the past anyway, and the
// window's other half lies in the future.
//
// Choices where the source is silent: the window counts the row's own block; random blocks are drawn per query head and
// block of 64 query rows among the blocks that window and global tokens leave out, those with the largest random
// number. That of a key block is number (row block) * 2^24 + (key block) of SplitMix64's stream RandomAt(seed, head's
// number in its layer), cut to its upper 24 bits; a row block's number is its first position / 64.
#include <algorithm>
#include <vector>

#include "common_parameters.h"
#include "head_groups.h"
#include "kernels/prompt_passes.h"
#include "key_blocks.h"
#include "problems/counter_random.h"
#include "registry.h"
#include "selector.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kBigBirdBlock = 64;

MethodSpec BigBirdSpec() {
  const auto blocks = [](const char* name, double value, double minimum, const char* help, ParameterRole role) {
    return ParameterSpec{.name = name,
                         .default_value = value,
                         .minimum = minimum,
                         .maximum = 1 << 14,
                         .step = 1,
                         .logarithmic = true,
                         .unit = Unit::kBlocks,
                         .help = help,
                         .cost = "64 more pairs per row and block",
                         .role = role,
                         .tokens_per_unit = kBigBirdBlock};
  };
  return {
      .name = "big-bird",
      .title = "BigBird",
      .family = "static pattern",
      .paper = "Big Bird: Transformers for Longer Sequences, section 2",
      .summary = "Keeps a window, the first blocks and random blocks, in blocks of 64 tokens.",
      .always_keeps = "the first n_global and the newest n_window blocks",
      .selection_cost = "a random number for each causal block, a head",
      .phase = Phase::kPrefill,
      .chosen_per = ChosenPer::kPlace,
      .parameters = {blocks("n_global", 2, 0, "first key blocks that every row keeps", ParameterRole::kOther),
                     blocks("n_window", 3, 1, "newest key blocks, the row's own among them", ParameterRole::kOther),
                     blocks("n_random", 3, 0, "random key blocks per block of 64 query rows", ParameterRole::kBudget),
                     internal::SeedParameter("the blocks"),
                     internal::ShareOfPrompt("global_share", "n_global", "first key blocks"),
                     internal::ShareOfPrompt("window_share", "n_window", "newest key blocks")},
  };
}

class BigBirdMethod final : public internal::PrefillSelector, public GoesByPromptLength {
 public:
  BigBirdMethod() : PrefillSelector(BigBirdSpec()) {}
  ParameterValues AtPromptLength(ParameterValues values, int64_t num_tokens) const override {
    for (const char* share : {"global_share", "window_share"})
      internal::TakeShareOfPrompt(spec(), share, num_tokens, &values);
    return values;
  }

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& given, const RunOptions& options,
                SparseIndex* index) const override {
    const ParameterValues values = AtPromptLength(given, internal::NumVisibleKeys(problem));
    const int32_t num_random = values.Integer("n_random");
    const int32_t num_global = values.Integer("n_global"), num_window = values.Integer("n_window");
    const auto seed = static_cast<uint64_t>(values.Integer("seed"));
    return internal::SelectByHead(
        problem, options,
        [&](const internal::HeadGroup& group, SparseIndexBuilder* builder) {
          std::vector<float> numbers;
          for (int32_t i = 0; i < group.num_heads && !options.stop.stop_requested(); ++i) {
            const int32_t head = problem.first_qo_head + group.first_head + i;
            const uint64_t stream = problems::RandomAt(seed, static_cast<uint64_t>(head));
            const auto choose = [&](const internal::QueryBlock& rows, std::vector<int32_t>* blocks) {
              const int32_t num_blocks = rows.NumKeyBlocks(kBigBirdBlock);
              const int32_t window = std::max(0, rows.FirstOwn(kBigBirdBlock) - num_window + 1);
              const int32_t global = std::min(num_global, window);
              for (int32_t block = 0; block < global; ++block) blocks->push_back(block);
              for (int32_t block = window; block < num_blocks; ++block) blocks->push_back(block);
              numbers.clear();
              const auto row_block = static_cast<uint64_t>(rows.first_position / kBigBirdBlock);
              for (int32_t block = global; block < window; ++block) {
                const uint64_t number = problems::RandomAt(stream, row_block << 24 | static_cast<uint64_t>(block));
                numbers.push_back(static_cast<float>(number >> 40));
              }
              for (const int32_t place : internal::TopK(numbers, num_random)) blocks->push_back(global + place);
            };
            internal::AddBlockLists(problem, options, kBigBirdBlock, kBigBirdBlock, choose, builder);
          }
        },
        index);
  }
};

}  // namespace

const PrefillMethod& BigBird() {
  static const BigBirdMethod method;
  return method;
}

}  // namespace headscope::kernels
