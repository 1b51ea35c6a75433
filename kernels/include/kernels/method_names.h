// SPDX-License-Identifier: Apache-2.0
// Methods of both phases under the one name that people give them.
#pragma once

#include <string>
#include <string_view>

#include "kernels/decode_method.h"
#include "kernels/method.h"

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

// The unique names of all registered methods, prefill before decode, with commas between them: for messages.
std::string MethodNames();

}  // namespace headscope::kernels
