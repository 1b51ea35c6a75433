// SPDX-License-Identifier: Apache-2.0
#include "kernels/method_names.h"

#include <algorithm>

namespace headscope::kernels {
namespace {

constexpr std::string_view kDecodePrefix = "decode/";

bool HasParameter(const MethodSpec& spec, std::string_view name) {
  return std::ranges::any_of(spec.parameters, [&](const ParameterSpec& parameter) { return parameter.name == name; });
}

}  // namespace

const MethodSpec* NamedMethod::spec() const {
  if (prefill != nullptr) return &prefill->spec();
  return decode != nullptr ? &decode->spec() : nullptr;
}

std::string_view WithoutPhase(std::string_view name) {
  if (name.starts_with(kDecodePrefix)) name.remove_prefix(kDecodePrefix.size());
  return name;
}

std::string DecodeName(std::string_view name) {
  return std::string(kDecodePrefix).append(name);
}

NamedMethod FindMethod(std::string_view name) {
  if (name.starts_with(kDecodePrefix)) return {.decode = FindDecodeMethod(WithoutPhase(name))};
  if (const PrefillMethod* prefill = FindPrefillMethod(name); prefill != nullptr) return {.prefill = prefill};
  return {.decode = FindDecodeMethod(name)};
}

std::string UniqueName(const MethodSpec& spec) {
  const bool both = spec.phase == Phase::kDecode && FindPrefillMethod(spec.name) != nullptr;
  return both ? DecodeName(spec.name) : spec.name;
}

std::string PressName(const MethodSpec& spec, const ParameterValues& values) {
  if (spec.baseline) return "no_press";
  if (spec.kvpress.empty()) return {};
  const auto is_on = [&](std::string_view name) { return HasParameter(spec, name) && values.Real(name) != 0; };
  return std::string(is_on("critical") ? "critical_" : "") + (is_on("allocation") ? "adakv_" : "") + spec.kvpress;
}

std::optional<double> AskedCompression(const MethodSpec& spec, const ParameterValues& values) {
  if (spec.baseline) return 0;
  if (!HasParameter(spec, "compression_ratio") || !HasParameter(spec, "budget") || values.Real("budget") != 0)
    return {};
  return values.Real("compression_ratio");
}

std::string MethodNames() {
  std::string names;
  const auto add = [&names](const auto& methods) {
    for (const auto* method : methods) {
      if (!names.empty()) names.append(", ");
      names.append(UniqueName(method->spec()));
    }
  };
  add(PrefillMethods());
  add(DecodeMethods());
  return names;
}

}  // namespace headscope::kernels
