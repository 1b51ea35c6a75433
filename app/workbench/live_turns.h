// SPDX-License-Identifier: Apache-2.0
// Whose live run is timed. Its times are of all cores: of all maps of a window, whichever trace they show, one at a
// time has the turn, in the order in which they asked, when the window has drawn what it has to.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <utility>

#include "ui/application.h"
#include "ui/workbench.h"

namespace headscope::app {

// On the UI thread, but for the end of a turn.
class LiveTurns : public std::enable_shared_from_this<LiveTurns> {
 public:
  using Turn = std::shared_ptr<void>;                        // ends with its last copy, on whichever thread
  using Who = std::pair<const ui::Workbench*, ui::MapView>;  // of whose maps
  using WaitForScreen = std::function<void(std::function<void()> then)>;

  // `post` as the workbenches have it; it outlives all turns.
  explicit LiveTurns(ui::PostFunction post) : post_(std::move(post)) {}

  // Calls `begin` when it is the turn of `who` and the screen was waited for, perhaps before it returns; in the place
  // of what `who` asked for before.
  void Ask(Who who, WaitForScreen wait, std::function<void(Turn)> begin);
  // `begin` is not called any more. A turn that was given goes on until what holds it lets go of it.
  void Leave(Who who);

 private:
  struct Waiting {
    int64_t number = 0;
    Who who;
    WaitForScreen wait;
    std::function<void(Turn)> begin;
  };
  void GiveNext();

  const ui::PostFunction post_;
  int64_t next_number_ = 0;
  std::list<Waiting> waiting_;
  std::weak_ptr<void> given_;  // of a turn, or of the wait for the screen before it
};

}  // namespace headscope::app
