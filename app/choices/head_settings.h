// SPDX-License-Identifier: Apache-2.0
// Configurations that give every head a method of its own, as tune and MInference write them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "analysis/compare.h"
#include "analysis/types/head_statistics.h"
#include "choices/length_range.h"
#include "data/trace_reader.h"

namespace headscope::app {

using HeadSettings = std::map<analysis::HeadId, analysis::AskedMethod>;

// Settings for prompts of some lengths.
struct RangeSettings {
  LengthRange range;
  HeadSettings heads;
};

// Reads a file of schema headscope-tuning-3, -2 or -1, or MInference's best patterns, whichever it holds, or tune's
// table (.csv). One without ranges of lengths is for any length; ranges rise and do not overlap. Untrusted: at most
// 64 MB, no deeper than such files are. Throws BadInputError that names the file, the entry and the remedy: no such
// file, neither of the formats, an unknown method or parameter, a value out of range, a head that is there twice.
// `as_published`: MInference's patterns get what its published code adds to an entry (MInferencePattern); UsageError,
// of the field minference-code, for a file that does not hold them.
std::vector<RangeSettings> ReadHeadSettings(const std::string& path, bool as_published = false);

// Those for a prompt of `num_tokens` tokens. Throws UsageError, naming the ranges that there are, where none holds it.
const HeadSettings& SettingsFor(const std::vector<RangeSettings>& settings, int64_t num_tokens,
                                const std::string& path);

// Whether the path's name says that it is LU-KV's array of budgets (.npy).
bool HoldsBudgets(const std::string& path);

// A layer of the trace that budgets are read for.
struct LayerHeads {
  int32_t number = 0, num_qo_heads = 0, num_kv_heads = 0;
};

// Refuses (BadInputError) settings of a file for layers or query heads that the model of `whose` has not.
// heads_of_layers: of each of its layers; 0 where that is not known.
void CheckSettingsAreOfModel(const HeadSettings& settings, const std::string& path, const std::string& whose,
                             std::span<const int32_t> heads_of_layers);

// As many query heads as the trace says that its model has in each layer; 0 in one that it has not recorded.
std::vector<int32_t> HeadsOfLayers(const data::TraceReader& trace);

// Reads LU-KV's array [99 ratios, layers, KV heads] of a model of num_layers layers, shares of a prompt's tokens that
// each KV head lets go of, and gives every query head of `layers` the method `asked` with the budget that its KV head
// keeps of `num_tokens` tokens at the compression ratio of percent / 100. `fewest`: how many query heads keep the
// method's least budget instead, which is more. Untrusted: at most 64 MB. Throws BadInputError as above (no such file,
// another shape than the model's, a share outside 0 to 1), UsageError for a method that does not evict by a budget of
// tokens.
HeadSettings ReadHeadBudgets(const std::string& path, const analysis::AskedMethod& asked, int percent,
                             int32_t num_layers, std::span<const LayerHeads> layers, int64_t num_tokens,
                             int64_t* fewest);

}  // namespace headscope::app
