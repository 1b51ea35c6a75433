// SPDX-License-Identifier: Apache-2.0
#include "kernels/method_names.h"

namespace headscope::kernels {

const MethodSpec* NamedMethod::spec() const {
  if (prefill != nullptr) return &prefill->spec();
  return decode != nullptr ? &decode->spec() : nullptr;
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

std::string PressName(const NamedMethod& method, const ParameterValues& values) {
  if (method.spec() == nullptr) return {};
  if (method.spec()->baseline) return "no_press";
  return KvpressName(*method.spec(), values);
}

std::optional<double> AskedCompression(const NamedMethod& method, const ParameterValues& values) {
  if (method.spec() == nullptr) return {};
  if (method.spec()->baseline) return 0;
  return method.decode != nullptr ? method.decode->AskedCompression(values) : std::nullopt;
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
