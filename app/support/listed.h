// SPDX-License-Identifier: Apache-2.0
// What messages say is allowed.
#pragma once

#include <functional>
#include <string>

namespace headscope::app {

// "a, b, c": what `name_of` (a function or a member) says of each element.
template <typename Range, typename NameOf = std::identity>
std::string Listed(const Range& range, NameOf name_of = {}) {
  std::string list;
  for (const auto& element : range) {
    if (!list.empty()) list.append(", ");
    list.append(std::invoke(name_of, element));
  }
  return list;
}

}  // namespace headscope::app
