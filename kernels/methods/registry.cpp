#include "registry.h"

namespace headscope::kernels {

const std::vector<const PrefillMethod*>& PrefillMethods() {
#define HEADSCOPE_ADDRESS(name) &name(),
  static const std::vector<const PrefillMethod*> methods = {HEADSCOPE_PREFILL_METHODS(HEADSCOPE_ADDRESS)};
  return methods;
}

const std::vector<const DecodeMethod*>& DecodeMethods() {
  static const std::vector<const DecodeMethod*> methods = {HEADSCOPE_DECODE_METHODS(HEADSCOPE_ADDRESS)};
  return methods;
#undef HEADSCOPE_ADDRESS
}

const PrefillMethod* FindPrefillMethod(std::string_view name) {
  for (const PrefillMethod* method : PrefillMethods()) {
    if (method->spec().name == name) return method;
  }
  return nullptr;
}

const DecodeMethod* FindDecodeMethod(std::string_view name) {
  for (const DecodeMethod* method : DecodeMethods()) {
    if (method->spec().name == name) return method;
  }
  return nullptr;
}

}  // namespace headscope::kernels
