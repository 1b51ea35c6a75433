// SPDX-License-Identifier: Apache-2.0
#include "kernels/method_names.h"

namespace headscope::kernels {
namespace {

constexpr std::string_view kDecodePrefix = "decode/";

}  // namespace

const MethodSpec* NamedMethod::spec() const {
  if (prefill != nullptr) return &prefill->spec();
  return decode != nullptr ? &decode->spec() : nullptr;
}

NamedMethod FindMethod(std::string_view name) {
  if (name.starts_with(kDecodePrefix)) {
    name.remove_prefix(kDecodePrefix.size());
    return {.decode = FindDecodeMethod(name)};
  }
  if (const PrefillMethod* prefill = FindPrefillMethod(name); prefill != nullptr) return {.prefill = prefill};
  return {.decode = FindDecodeMethod(name)};
}

std::string UniqueName(const MethodSpec& spec) {
  const bool both = spec.phase == Phase::kDecode && FindPrefillMethod(spec.name) != nullptr;
  return both ? std::string(kDecodePrefix).append(spec.name) : spec.name;
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
