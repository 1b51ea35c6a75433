// SPDX-License-Identifier: Apache-2.0
// Parameters that several methods have, each written once. What differs between the methods is given.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/method_spec.h"

namespace headscope::kernels::internal {

// `of`: what is drawn at random, "the blocks".
inline ParameterSpec SeedParameter(const std::string& of) {
  return {.name = "seed",
          .default_value = 0,
          .minimum = 0,
          .maximum = 1 << 30,
          .help = "random seed of " + of + "; recorded with the results",
          .cost = "none; it only changes the draw"};
}

// Of a method whose source leaves the model's first layers dense.
inline constexpr char kDenseLayers[] = "dense_layers";
inline ParameterSpec DenseLayersParameter() {
  return {.name = kDenseLayers,
          .default_value = 2,
          .maximum = 1 << 14,
          .help = "first layers of the model that attend to everything; a head of no known layer is in none of them",
          .cost = "these layers take what dense attention takes"};
}
// What DenseBy() of such a method says.
inline std::string_view DenseByFirstLayers(const ParameterValues& values, int32_t layer) {
  return layer >= 0 && layer < values.Integer(kDenseLayers) ? kDenseLayers : std::string_view();
}

// Of a decode method: its budget.
inline ParameterSpec AttendedTokens(double default_value, const std::string& help = "tokens attended to") {
  return {.name = "k",
          .default_value = default_value,
          .minimum = 1,
          .maximum = 1 << 20,
          .step = 16,
          .logarithmic = true,
          .unit = Unit::kTokens,
          .help = help,
          .cost = "one more key and value to read per token",
          .role = ParameterRole::kBudget};
}

// How many of so many tokens a share leaves: rounded down, as the kvpress library counts, and at least one.
inline int64_t TokensLeft(double share_left_out, int64_t num_tokens) {
  // A product that is whole but for its rounding is that number.
  constexpr double kRounding = 1e-9;
  const double left = std::floor((1 - share_left_out) * static_cast<double>(num_tokens) + kRounding);
  return std::clamp<int64_t>(static_cast<int64_t>(left), 1, std::max<int64_t>(num_tokens, 1));
}

// As many of so many tokens as a share says, rounded down in the same way.
inline int64_t TokensOfShare(double share, int64_t num_tokens) {
  return TokensLeft(1 - share, num_tokens);
}

// The same budget as a share, of a method that has it in tokens. `of`: "the step's tokens".
inline constexpr char kCompressionRatio[] = "compression_ratio";
inline ParameterSpec CompressionRatio(const std::string& budget, const std::string& of = "a step's tokens") {
  return {.name = kCompressionRatio,
          .type = ParameterType::kReal,
          .default_value = 0,
          .maximum = 1,
          .step = 0.05,
          .help = "share of " + of + " that is left out, instead of " + budget + " (0: set by " + budget + ")",
          .cost = "less to read, and more lost",
          .instead_of = budget};
}
// The budget that either of the two says, of so many tokens.
inline int32_t BudgetInTokens(const ParameterValues& values, std::string_view budget, int64_t num_tokens) {
  const double ratio = values.Real(kCompressionRatio);
  return ratio > 0 ? static_cast<int32_t>(TokensLeft(ratio, num_tokens)) : values.Integer(budget);
}

// A share of the prompt's tokens in a length's place, of a prefill method that others compared with by shares.
inline ParameterSpec ShareOfPrompt(const std::string& name, const std::string& length, const std::string& what) {
  return {.name = name,
          .type = ParameterType::kReal,
          .default_value = 0,
          .maximum = 1,
          .step = 0.01,
          .help = what + " as a share of the prompt, instead of " + length + " (0: set by " + length +
                  "; SampleAttention's comparison: 0.08)",
          .cost = "more pairs, the more the longer the prompt",
          .instead_of = length};
}
// What of the share's tokens a prefill method keeps at this length of the prompt: the values with that length, and
// without the share. Whole units, rounded down, and at least one.
inline void TakeShareOfPrompt(const MethodSpec& spec, const std::string& name, int64_t num_tokens,
                              ParameterValues* values) {
  const double share = values->Real(name);
  if (share == 0) return;
  const auto find = [&](const std::string& wanted) -> const ParameterSpec& {
    return *std::ranges::find(spec.parameters, wanted, &ParameterSpec::name);
  };
  const ParameterSpec& length = find(find(name).instead_of);
  const int64_t units = TokensOfShare(share, num_tokens) / length.tokens_per_unit;
  values->Set(spec, length.name, std::clamp(static_cast<double>(units), 1.0, length.maximum));
  values->Set(spec, name, 0);
}

// InfLLM's, which its prompt form and its decode form share. `per_token` and `per_unit`: what a token that is kept in
// any case and a unit that is looked up cost; `representatives`: what one more of these does.
struct InfLlmTexts {
  std::string n_init_help, n_local_help, top_k_help, per_token, per_unit, representatives;
};
inline std::vector<ParameterSpec> InfLlmParameters(double n_local, const InfLlmTexts& texts) {
  const auto tokens = [](const char* name, double value, const std::string& help, const std::string& cost) {
    return ParameterSpec{.name = name,
                         .default_value = value,
                         .minimum = 1,
                         .maximum = 1 << 20,
                         .step = 16,
                         .logarithmic = true,
                         .unit = Unit::kTokens,
                         .help = help,
                         .cost = cost};
  };
  return {tokens("block_size", 128, "tokens of a unit", "top_k times " + texts.per_token),
          tokens("n_init", 128, texts.n_init_help, texts.per_token),
          tokens("n_local", n_local, texts.n_local_help, texts.per_token),
          {.name = "top_k",
           .default_value = 16,
           .minimum = 0,
           .maximum = 1 << 14,
           .help = texts.top_k_help,
           .cost = texts.per_unit,
           .role = ParameterRole::kBudget},
          {.name = "n_repr",
           .default_value = 4,
           .minimum = 1,
           .maximum = 1024,
           .help = "tokens that represent a unit",
           .cost = texts.representatives}};
}

// Of a method that evicts from step to step. `settings`: behind the help.
inline ParameterSpec CachedTokens(double default_value, double step, const std::string& settings = "") {
  return {.name = "k",
          .default_value = default_value,
          .minimum = 1,
          .maximum = 1 << 20,
          .step = step,
          .logarithmic = true,
          .unit = Unit::kTokens,
          .help = "tokens that the cache holds from step to step" + settings,
          .cost = "one more key and value to read per token",
          .role = ParameterRole::kAmount};
}

// Quest's, of whoever selects by its bounds.
inline ParameterSpec PageSizeParameter(const std::string& help) {
  return {.name = "page_size",
          .default_value = 16,
          .minimum = 1,
          .maximum = 1024,
          .step = 1,
          .logarithmic = true,
          .unit = Unit::kTokens,
          .help = help,
          .cost = "bounds are fewer and looser"};
}

// The budget of a method that keeps so many blocks of keys for each block of 64 queries.
inline ParameterSpec KeyBlocksKept(int32_t tokens_of_block) {
  return {.name = "n_blocks",
          .default_value = 100,
          .minimum = 1,
          .maximum = 1 << 14,
          .step = 1,
          .logarithmic = true,
          .unit = Unit::kBlocks,
          .help = "key blocks kept per query block",
          .cost = "64 more pairs per row and block; the first n_blocks * 64 tokens are dense",
          .role = ParameterRole::kBudget,
          .tokens_per_unit = tokens_of_block,
          .scaled_floor = 8};
}

// How the rows of a tile share a list, where each row of a trained gate selects by itself.
inline ParameterSpec RowsSharing() {
  return {.name = "rows",
          .type = ParameterType::kChoice,
          .help = "how 64 rows share a list: what any of them selects, or the best by the sum of their scores",
          .cost = "sum keeps less, and not all that each row selected",
          .choices = {"union", "sum"}};
}

}  // namespace headscope::kernels::internal
