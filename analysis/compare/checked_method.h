// SPDX-License-Identifier: Apache-2.0
// A method that was asked for, found in the registry, with values that it takes.
#pragma once

#include "kernels/method_names.h"
#include "kernels/method_spec.h"

namespace headscope::analysis {

struct CheckedMethod {
  kernels::NamedMethod method;
  kernels::ParameterValues values;

  const kernels::MethodSpec& spec() const { return *method.spec(); }
  bool IsBaseline() const { return spec().baseline; }
};

}  // namespace headscope::analysis
