// SPDX-License-Identifier: Apache-2.0
// Parameters that several methods have, each written once. What differs between the methods is given.
#pragma once

#include <string>
#include <string_view>

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
          .cost = "one more key and value to read per token"};
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
