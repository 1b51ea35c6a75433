// SPDX-License-Identifier: Apache-2.0
// What files and tables call the values of a method's spec, and the way back.
#pragma once

#include <optional>
#include <string_view>

#include "kernels/method_spec.h"

namespace headscope::kernels {

// "prefill" or "decode".
std::string_view NameOf(Phase phase);
std::optional<Phase> PhaseOfName(std::string_view name);
// Of what NameOf(ChosenPer) says (method_spec.h).
std::optional<ChosenPer> ChosenPerOfName(std::string_view name);

}  // namespace headscope::kernels
