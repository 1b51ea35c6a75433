// SPDX-License-Identifier: Apache-2.0
// Where the keyboard is in the panel. The panel tells every frame which controls it draws, in order, and what a key
// does to each; between frames the focus moves among them. No Qt and no ImGui.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace headscope::ui {

// The keys that the panel understands once the focus is in it. kList opens the list of a control that has one.
enum class PanelKey { kLeft, kRight, kUp, kDown, kHome, kEnd, kActivate, kEscape, kList };

struct PanelStop {
  std::string name;                         // as LivePanel::controls names it
  std::function<void(int notches)> adjust;  // arrows: -1 left or down, +1 right or up; empty: arrows do nothing
  std::function<void()> activate;           // Space and Enter; may be empty
  std::function<void(bool last)> jump;      // Home and End: to the least or the greatest value; may be empty
};

class PanelFocus {
 public:
  void BeginFrame() { drawn_.clear(); }
  void Add(PanelStop stop) { drawn_.push_back(std::move(stop)); }
  // The controls of the frame replace the ones before. When the focused one is gone, the one in its place has the
  // focus.
  void EndFrame();

  // To the next or the previous control; false, and the focus is nowhere, past the last or before the first.
  bool Move(bool forward);
  void FocusLast() { index_ = static_cast<int>(stops_.size()) - 1; }
  // To the control of this name once a frame has drawn it.
  void FocusOn(std::string name) { wanted_ = std::move(name); }
  void Clear() {
    index_ = -1;
    wanted_.clear();
  }

  // Null when the focus is nowhere.
  const PanelStop* focused() const { return index_ < 0 ? nullptr : &stops_[static_cast<size_t>(index_)]; }
  bool IsFocused(const std::string& name) const { return focused() != nullptr && focused()->name == name; }

 private:
  std::vector<PanelStop> stops_, drawn_;
  std::string wanted_;  // FocusOn's, until it is drawn
  int index_ = -1;
};

}  // namespace headscope::ui
