// SPDX-License-Identifier: Apache-2.0
// A decode step whose pages a device may choose and attend in one chain of launches.
#pragma once

#include <cstdint>
#include <optional>

namespace headscope::kernels {

class DecodeMethod;
class ParameterValues;

// Pages of the cache are scored by the largest score that a key between their bounds could have, component by
// component; those with the best scores are attended (Quest, section 3.3).
struct PagesByBounds {
  int32_t budget = 1024;    // tokens attended to, in whole pages, at least one page
  int32_t page_size = 16;   // tokens of a page, 1 .. 1024; larger pages have looser bounds
  bool mean_query = false;  // pages are scored by the group's mean query instead of the heads' summed scores
  bool keep_newest = true;  // always select the newest page
};

// The method's choice in layers that it does not leave dense, where it is of this kind; empty: it is of another one.
std::optional<PagesByBounds> PagesByBoundsOf(const DecodeMethod& method, const ParameterValues& values);

}  // namespace headscope::kernels
