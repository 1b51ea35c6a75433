// SPDX-License-Identifier: Apache-2.0
// Methods of both phases under the one name that people give them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kernels/decode_method.h"
#include "kernels/method.h"
#include "kernels/phase_prefix.h"

namespace headscope::kernels {

// A method of one of the two phases, or none.
struct NamedMethod {
  const PrefillMethod* prefill = nullptr;
  const DecodeMethod* decode = nullptr;

  // Null where there is no method.
  const MethodSpec* spec() const;
};

// "NAME" is the prefill method of that name or, where there is none, the decode method; "decode/NAME" is the decode
// method.
NamedMethod FindMethod(std::string_view name);

// The name under which FindMethod finds a registered method: "decode/NAME" where both phases have one of its name.
std::string UniqueName(const MethodSpec& spec);

// What the kvpress library's evaluation calls the method under these values, AdaKV and CriticalKV included
// ("critical_adakv_snapkv"); "no_press" of the baseline; empty: it has no press of the kind.
std::string PressName(const NamedMethod& method, const ParameterValues& values);
// The share of a prompt's tokens that these values tell a method to let go of, 0 of the baseline; none where they give
// a number of tokens, and of a method that has no such parameter.
std::optional<double> AskedCompression(const NamedMethod& method, const ParameterValues& values);

// The unique names of all registered methods, prefill before decode, with commas between them: for messages.
std::string MethodNames();

}  // namespace headscope::kernels
