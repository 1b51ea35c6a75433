#include <algorithm>
#include <utility>

#include "analysis/compare.h"
#include "compare/decode_comparison.h"
#include "compare/prefill_comparison.h"
#include "kernels/method_names.h"

namespace headscope::analysis {
namespace {

using kernels::Status;
using kernels::StatusCode;

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
  Impl(HeadTensorsPtr measured, const CompareOptions& options)
      : head(measured->id), prefill(measured, options), decode(std::move(measured), options) {}

  const HeadId head;
  PrefillComparison prefill;
  DecodeComparison decode;
};

HeadComparison::HeadComparison(HeadTensorsPtr head, const CompareOptions& options) {
  CompareOptions checked = options;
  checked.repeats = std::max(1, options.repeats);
  impl_ = std::make_unique<Impl>(std::move(head), checked);
}

HeadComparison::~HeadComparison() = default;

Status HeadComparison::Run(const std::string& method, const kernels::ParameterValues& values, MethodResult* result) {
  const kernels::NamedMethod named = kernels::FindMethod(method);
  if (named.spec() == nullptr) {
    return {StatusCode::kInvalidArgument,
            "method '" + method + "' is not registered: choose from " + kernels::MethodNames()};
  }
  const kernels::MethodSpec& spec = *named.spec();
  if (Status status = CheckValues(spec, values); !status.ok()) return status;
  MethodResult made;
  made.head = impl_->head;
  made.method = spec.name;
  made.parameters = values.ToString(spec);
  Status status = named.prefill != nullptr ? impl_->prefill.Run(*named.prefill, values, &made)
                                           : impl_->decode.Run(*named.decode, values, &made);
  if (status.ok()) *result = std::move(made);
  return status;
}

}  // namespace headscope::analysis
