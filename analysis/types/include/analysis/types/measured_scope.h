// SPDX-License-Identifier: Apache-2.0
// What a run's times are of: a head by itself, or heads of its layer side by side.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "analysis/types/head_statistics.h"

namespace headscope::analysis {

// A head by itself, or its layer in one launch, as a model attends.
enum class Measure : uint8_t { kHead, kLayer };
// "head" or "layer", as files have it and `--measure` takes it.
std::string_view NameOf(Measure measure);
std::optional<Measure> MeasureOfName(std::string_view name);

struct MeasuredScope {
  std::optional<Measure> measure;              // nothing: an older file does not say
  int32_t num_qo_heads = 1, num_kv_heads = 1;  // in the launch
  int32_t heads_of_layer = 0;                  // query heads that the model has there; of a layer alone

  auto operator<=>(const MeasuredScope&) const = default;
};

// The one sentence of it: "layer 5: 8 heads", "layer 5: 4 of 8 heads" or "head 5:7 alone"; empty without a measure.
std::string ScopeText(const HeadId& head, const MeasuredScope& scope);
// What files had before they had the parts: takes all but `num_kv_heads` from such a sentence. False for another
// sentence.
bool TakeScopeText(std::string_view text, MeasuredScope* scope);

}  // namespace headscope::analysis
