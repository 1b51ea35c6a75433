// SPDX-License-Identifier: Apache-2.0
#include "kernels/method_spec.h"

#include <algorithm>

#include "kernels/spec_names.h"

namespace headscope::kernels {

Bound BoundOf(Unit unit) {
  switch (unit) {
    case Unit::kTokens:
    case Unit::kColumns:
    case Unit::kSlashes:
    case Unit::kRows:
      return Bound::kSeqLen;
    case Unit::kBlocks:
      return Bound::kBlocks;
    case Unit::kComponents:
      return Bound::kHeadDim;
    case Unit::kNone:
    case Unit::kChunks:
    case Unit::kShareOfMass:
    case Unit::kShareOfParameter:
      break;
  }
  return Bound::kNothing;
}

std::string UnitText(const ParameterSpec& spec, bool one) {
  const auto counted = [one](const char* singular) { return std::string(singular).append(one ? "" : "s"); };
  switch (spec.unit) {
    case Unit::kNone:
      return {};
    case Unit::kTokens:
      return counted("token");
    case Unit::kColumns:
      return counted("column");
    case Unit::kSlashes:
      return one ? "slash" : "slashes";
    case Unit::kRows:
      return counted("row");
    case Unit::kBlocks:
      return counted("block");
    case Unit::kChunks:
      return counted("chunk");
    case Unit::kComponents:
      return counted("component");
    case Unit::kShareOfMass:
      return "share of mass";
    case Unit::kShareOfParameter:
      return std::string("share of ").append(spec.share_of);
  }
  return {};
}

std::string_view NameOf(Phase phase) {
  return phase == Phase::kPrefill ? "prefill" : "decode";
}

std::optional<Phase> PhaseOfName(std::string_view name) {
  for (const Phase phase : {Phase::kPrefill, Phase::kDecode}) {
    if (NameOf(phase) == name) return phase;
  }
  return std::nullopt;
}

std::string_view NameOf(ChosenPer chosen_per) {
  switch (chosen_per) {
    case ChosenPer::kPlace:
      return "place";
    case ChosenPer::kQueryHead:
      return "query head";
    case ChosenPer::kKvHead:
      return "KV head";
  }
  return {};
}

std::optional<ChosenPer> ChosenPerOfName(std::string_view name) {
  for (const ChosenPer per : {ChosenPer::kPlace, ChosenPer::kQueryHead, ChosenPer::kKvHead}) {
    if (NameOf(per) == name) return per;
  }
  return std::nullopt;
}

double LargestUseful(const ParameterSpec& spec, int64_t num_tokens, int64_t head_dim) {
  int64_t most = 0;
  switch (BoundOf(spec.unit)) {
    case Bound::kNothing:
      break;
    case Bound::kSeqLen:
      most = num_tokens;
      break;
    case Bound::kBlocks:
      most = (num_tokens + spec.tokens_per_unit - 1) / spec.tokens_per_unit;
      break;
    case Bound::kHeadDim:
      most = head_dim;
      break;
  }
  if (most <= 0) return spec.maximum;
  return std::clamp(static_cast<double>(most), spec.minimum, spec.maximum);
}

std::string KvpressName(const MethodSpec& spec, const ParameterValues& values) {
  for (const KvpressEntry& entry : spec.kvpress) {
    ParameterValues expected(spec);
    if (!expected.Parse(spec, entry.values).empty()) continue;
    const bool same = std::ranges::all_of(spec.parameters, [&](const ParameterSpec& parameter) {
      return std::ranges::find(entry.given, parameter.name) != entry.given.end() || !values.Matters(parameter) ||
             values.Real(parameter.name) == expected.Real(parameter.name);
    });
    if (same) return entry.name;
  }
  return {};
}

}  // namespace headscope::kernels
