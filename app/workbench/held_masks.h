// SPDX-License-Identifier: Apache-2.0
// The masks that the maps ask for tiles of, by number. Lives on the UI thread.
//
// Each map has its own: one that goes through many methods takes none from the map beside it, whose mask may be on show
// for hours.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "analysis/mask_pair.h"
#include "ui/workbench.h"

namespace headscope::app {

class HeldMasks {
 public:
  // On show, the one before it, whose tiles may still be asked for, and the ghosts of either.
  static constexpr std::ptrdiff_t kOfView = 4;

  // The mask's number, which no other ever has. The oldest of more than kOfView of the view's goes.
  int64_t Add(ui::MapView view, analysis::KeptMask mask) {
    const auto is_of_view = [view](const auto& entry) { return entry.second.view == view; };
    masks_.emplace(next_number_, Held{view, std::move(mask)});
    if (std::ranges::count_if(masks_, is_of_view) > kOfView) masks_.erase(std::ranges::find_if(masks_, is_of_view));
    return next_number_++;
  }
  // Null: it is not held any more.
  const analysis::KeptMask* Find(int64_t number) const {
    const auto found = masks_.find(number);
    return found == masks_.end() ? nullptr : &found->second.mask;
  }
  void Forget(int64_t number) { masks_.erase(number); }
  void ForgetOf(ui::MapView view) {
    std::erase_if(masks_, [view](const auto& entry) { return entry.second.view == view; });
  }
  // All of them leave, and whoever lets go of the result frees them.
  std::shared_ptr<void> TakeAll() { return std::make_shared<Masks>(std::exchange(masks_, {})); }

 private:
  struct Held {
    ui::MapView view;
    analysis::KeptMask mask;
  };
  using Masks = std::map<int64_t, Held>;

  Masks masks_;
  int64_t next_number_ = 1;
};

}  // namespace headscope::app
