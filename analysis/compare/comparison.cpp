#include <algorithm>
#include <string_view>

#include "analysis/compare.h"
#include "compare/decode_comparison.h"
#include "compare/prefill_comparison.h"

namespace headscope::analysis {
namespace {

using kernels::Status;
using kernels::StatusCode;

constexpr std::string_view kDecodePrefix = "decode/";

std::string KnownMethods() {
  std::string names;
  for (const kernels::PrefillMethod* method : kernels::PrefillMethods())
    names += (names.empty() ? "" : ", ") + method->spec().name;
  for (const kernels::DecodeMethod* method : kernels::DecodeMethods()) {
    names += ", ";
    if (kernels::FindPrefillMethod(method->spec().name) != nullptr) names += kDecodePrefix;
    names += method->spec().name;
  }
  return names;
}

// Refuses values that the method does not have or that are out of range.
Status CheckValues(const kernels::MethodSpec& spec, const kernels::ParameterValues& values) {
  kernels::ParameterValues checked(spec);
  for (const auto& [name, value] : values.values()) {
    if (const std::string error = checked.Set(spec, name, value); !error.empty())
      return {StatusCode::kInvalidArgument, error};
  }
  return {};
}

}  // namespace

struct HeadComparison::Impl {
  Impl(const HeadTensorsPtr& measured, const CompareOptions& options)
      : head(measured->id), prefill(measured, options), decode(measured, options) {}

  const HeadId head;
  PrefillComparison prefill;
  DecodeComparison decode;
};

HeadComparison::HeadComparison(HeadTensorsPtr head, const CompareOptions& options) {
  CompareOptions checked = options;
  checked.repeats = std::max(1, options.repeats);
  impl_ = std::make_unique<Impl>(head, checked);
}

HeadComparison::~HeadComparison() = default;

Status HeadComparison::Run(const std::string& method, const kernels::ParameterValues& values, MethodResult* result) {
  std::string_view name = method;
  const kernels::PrefillMethod* prefill = nullptr;
  const kernels::DecodeMethod* decode = nullptr;
  if (name.starts_with(kDecodePrefix)) {
    name.remove_prefix(kDecodePrefix.size());
    decode = kernels::FindDecodeMethod(name);
  } else {
    prefill = kernels::FindPrefillMethod(name);
    if (prefill == nullptr) decode = kernels::FindDecodeMethod(name);
  }
  if (prefill == nullptr && decode == nullptr) {
    return {StatusCode::kInvalidArgument, "method '" + method + "' is not registered: choose from " + KnownMethods()};
  }
  const kernels::MethodSpec& spec = prefill != nullptr ? prefill->spec() : decode->spec();
  if (Status status = CheckValues(spec, values); !status.ok()) return status;
  MethodResult made;
  made.head = impl_->head;
  made.method = spec.name;
  made.parameters = values.ToString(spec);
  const Status status =
      prefill != nullptr ? impl_->prefill.Run(*prefill, values, &made) : impl_->decode.Run(*decode, values, &made);
  if (status.ok()) *result = std::move(made);
  return status;
}

}  // namespace headscope::analysis
