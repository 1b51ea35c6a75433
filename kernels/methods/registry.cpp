// SPDX-License-Identifier: Apache-2.0
#include "registry.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/cuda_decode_step.h"
#include "kernels/cuda_select.h"
#include "kernels/file_methods.h"

namespace headscope::kernels {
namespace {

// Methods that were made of files.
struct AddedMethods {
  std::mutex mutex;
  std::vector<std::unique_ptr<PrefillMethod>> prefill;
  std::vector<std::unique_ptr<DecodeMethod>> decode;
};
AddedMethods& Added() {
  static AddedMethods added;
  return added;
}

// Null where none has that name.
const auto* WithName(const auto& methods, std::string_view name) {
  const auto found = std::ranges::find_if(methods, [&](const auto& method) { return method->spec().name == name; });
  return found == methods.end() ? nullptr : &**found;
}

const auto& Baseline(const auto& methods) {
  return **std::find_if(methods.begin(), methods.end(), [](const auto* method) { return method->spec().baseline; });
}

}  // namespace

const std::vector<const PrefillMethod*>& PrefillMethods() {
#define HEADSCOPE_ADDRESS(name, ...) &name(),
  static const std::vector<const PrefillMethod*> methods = {
      HEADSCOPE_PREFILL_METHODS(HEADSCOPE_ADDRESS, HEADSCOPE_ADDRESS)};
  return methods;
}

const std::vector<const DecodeMethod*>& DecodeMethods() {
  static const std::vector<const DecodeMethod*> methods = {
      HEADSCOPE_DECODE_METHODS(HEADSCOPE_ADDRESS, HEADSCOPE_ADDRESS)};
  return methods;
#undef HEADSCOPE_ADDRESS
}

std::vector<const DecodeMethod*> internal::CandidateSelectors(const DecodeMethod& (*asking)()) {
#define HEADSCOPE_FUNCTION(name, ...) &(name),
  std::vector<const DecodeMethod*> selectors;
  for (const DecodeMethod& (*const make)() : {HEADSCOPE_DECODE_METHODS(HEADSCOPE_FUNCTION, HEADSCOPE_FUNCTION)}) {
    if (make != asking && make().spec().gives_candidates) selectors.push_back(&make());
  }
  return selectors;
#undef HEADSCOPE_FUNCTION
}

const PrefillMethod* FindPrefillMethod(std::string_view name) {
  if (const PrefillMethod* const listed = WithName(PrefillMethods(), name); listed != nullptr) return listed;
  const std::lock_guard lock(Added().mutex);
  return WithName(Added().prefill, name);
}

const PrefillMethod& AddPrefillMethod(std::unique_ptr<PrefillMethod> method) {
  const std::lock_guard lock(Added().mutex);
  return *Added().prefill.emplace_back(std::move(method));
}

const DecodeMethod* FindDecodeMethod(std::string_view name) {
  if (const DecodeMethod* const listed = WithName(DecodeMethods(), name); listed != nullptr) return listed;
  const std::lock_guard lock(Added().mutex);
  return WithName(Added().decode, name);
}

const DecodeMethod& AddDecodeMethod(std::unique_ptr<DecodeMethod> method) {
  const std::lock_guard lock(Added().mutex);
  return *Added().decode.emplace_back(std::move(method));
}

const CudaSelector* FindCudaSelector(const PrefillMethod& method) {
#define HEADSCOPE_ON_CPU(name) {},
#if HEADSCOPE_HAVE_CUDA
#define HEADSCOPE_ON_BOTH(name, selector) {&name().spec(), &selection::selector},
#else
#define HEADSCOPE_ON_BOTH(name, selector) {},
#endif
  static const CudaSelector selectors[] = {HEADSCOPE_PREFILL_METHODS(HEADSCOPE_ON_CPU, HEADSCOPE_ON_BOTH)};
#undef HEADSCOPE_ON_BOTH
#undef HEADSCOPE_ON_CPU
  for (const CudaSelector& selector : selectors) {
    if (selector.select != nullptr && selector.spec == &method.spec()) return &selector;
  }
  return nullptr;
}

CudaStepMaker FindCudaStepMaker(const DecodeMethod& method) {
  struct Line {
    const DecodeMethod* method = nullptr;
    CudaStepMaker maker = nullptr;
  };
#define HEADSCOPE_ON_CPU(name) {},
#if HEADSCOPE_HAVE_CUDA
#define HEADSCOPE_ON_BOTH(name, maker) {&name(), &fused::maker},
#else
#define HEADSCOPE_ON_BOTH(name, maker) {},
#endif
  static const Line lines[] = {HEADSCOPE_DECODE_METHODS(HEADSCOPE_ON_CPU, HEADSCOPE_ON_BOTH)};
#undef HEADSCOPE_ON_BOTH
#undef HEADSCOPE_ON_CPU
  for (const Line& line : lines) {
    if (line.method == &method) return line.maker;
  }
  return nullptr;
}

const PrefillMethod& PrefillBaseline() {
  return Baseline(PrefillMethods());
}

const DecodeMethod& DecodeBaseline() {
  return Baseline(DecodeMethods());
}

}  // namespace headscope::kernels
