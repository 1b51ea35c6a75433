// SPDX-License-Identifier: Apache-2.0
#include "analysis/types/measured_scope.h"

#include <array>
#include <charconv>
#include <system_error>

namespace headscope::analysis {
namespace {

constexpr std::array<std::string_view, 2> kMeasureNames = {"head", "layer"};

// Takes `expected` off the front of `text`.
bool TakeWord(std::string_view expected, std::string_view* text) {
  if (!text->starts_with(expected)) return false;
  text->remove_prefix(expected.size());
  return true;
}

bool TakeCount(std::string_view* text, int32_t* count) {
  const auto [behind, error] = std::from_chars(text->data(), text->data() + text->size(), *count);
  if (error != std::errc() || *count < 0) return false;
  text->remove_prefix(static_cast<size_t>(behind - text->data()));
  return true;
}

}  // namespace

std::string_view NameOf(Measure measure) {
  return kMeasureNames[static_cast<size_t>(measure)];
}

std::optional<Measure> MeasureOfName(std::string_view name) {
  for (const Measure measure : {Measure::kHead, Measure::kLayer}) {
    if (NameOf(measure) == name) return measure;
  }
  return std::nullopt;
}

std::string ScopeText(const HeadId& head, const MeasuredScope& scope) {
  if (!scope.measure) return {};
  if (scope.measure == Measure::kHead)
    return "head " + std::to_string(head.layer) + ":" + std::to_string(head.head) + " alone";
  std::string text = "layer " + std::to_string(head.layer) + ": " + std::to_string(scope.num_qo_heads);
  if (scope.num_qo_heads < scope.heads_of_layer) text += " of " + std::to_string(scope.heads_of_layer);
  return text + (scope.heads_of_layer == 1 ? " head" : " heads");
}

bool TakeScopeText(std::string_view text, MeasuredScope* scope) {
  int32_t number = 0;
  MeasuredScope read;
  if (TakeWord("head ", &text)) {
    if (!TakeCount(&text, &number) || !TakeWord(":", &text) || !TakeCount(&text, &number) || text != " alone")
      return false;
    read.measure = Measure::kHead;
  } else {
    if (!TakeWord("layer ", &text) || !TakeCount(&text, &number) || !TakeWord(": ", &text) ||
        !TakeCount(&text, &read.num_qo_heads))
      return false;
    read.heads_of_layer = read.num_qo_heads;
    if (TakeWord(" of ", &text) && !TakeCount(&text, &read.heads_of_layer)) return false;
    if (text != " heads" && text != " head") return false;
    read.measure = Measure::kLayer;
  }
  read.num_kv_heads = scope->num_kv_heads;  // which the sentence never said
  *scope = read;
  return true;
}

}  // namespace headscope::analysis
