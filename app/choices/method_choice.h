// SPDX-License-Identifier: Apache-2.0
// Methods as they are typed: "NAME" or "NAME:k=v,k=v".
#pragma once

#include <string>
#include <vector>

#include "kernels/decode_method.h"
#include "kernels/method.h"

namespace headscope::app {

struct MethodChoice {
  const kernels::MethodSpec* spec = nullptr;
  const kernels::PrefillMethod* prefill = nullptr;  // exactly one of the two
  const kernels::DecodeMethod* decode = nullptr;
  kernels::ParameterValues values;
  std::string name;
};

// A name that both phases have ("dense") means the prefill one; "decode/NAME" asks for the other. Throws UsageError
// with the known names, of the `field` that has the text.
MethodChoice ParseMethod(const std::string& text, const std::string& field = "method");
std::vector<MethodChoice> ParseMethods(const std::vector<std::string>& texts);
// Every registered method with its defaults, scaled to a sequence of `seq_len` tokens where a default is an absolute
// length that a short sequence would make dense (a-shape's window on 4K tokens, say): what `demo` compares.
std::vector<MethodChoice> DemonstrationMethods(int64_t seq_len);
// The same in words, for whoever reads the outcome.
std::string DemonstrationNote(int64_t seq_len);

}  // namespace headscope::app
