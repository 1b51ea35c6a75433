// SPDX-License-Identifier: Apache-2.0
#include "panel_focus.h"

#include <algorithm>
#include <utility>

namespace headscope::ui {

void PanelFocus::EndFrame() {
  if (const PanelStop* const present = focused()) {
    const auto same =
        std::find_if(drawn_.begin(), drawn_.end(), [&](const PanelStop& stop) { return stop.name == present->name; });
    const auto last = static_cast<int>(drawn_.size()) - 1;
    index_ = same != drawn_.end() ? static_cast<int>(same - drawn_.begin()) : std::min(index_, last);
  }
  stops_ = std::exchange(drawn_, {});
  const auto wanted =
      std::find_if(stops_.begin(), stops_.end(), [this](const PanelStop& stop) { return stop.name == wanted_; });
  if (wanted_.empty() || wanted == stops_.end()) return;
  index_ = static_cast<int>(wanted - stops_.begin());
  wanted_.clear();
}

bool PanelFocus::Move(bool forward) {
  const auto count = static_cast<int>(stops_.size());
  // Before the first and past the last is the map, -1.
  const int next = forward ? index_ + 1 : index_ - 1;
  index_ = next >= 0 && next < count ? next : -1;
  return index_ >= 0;
}

}  // namespace headscope::ui
