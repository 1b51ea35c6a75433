// SPDX-License-Identifier: Apache-2.0
// Heads of the open trace that show something, for whoever does not know where to begin. Pure.
#pragma once

#include <QString>
#include <optional>
#include <string>
#include <vector>

#include "head_store.h"

namespace headscope::ui {

struct HeadWorthALook {
  analysis::HeadId head;
  QString why;  // one line
};

// At most one head of each kind, each head once: the one that needs the fewest keys for 95 % of its attention, the one
// that reads far, the one that needs the most keys. Only heads whose statistics are known; empty while none is.
std::vector<HeadWorthALook> HeadsWorthALook(const HeadStore& heads);

// Of the heads whose statistics are known, the one with the most of a metric; nothing while none is.
std::optional<analysis::HeadId> HeadWithMost(const HeadStore& heads, const std::string& metric);

}  // namespace headscope::ui
