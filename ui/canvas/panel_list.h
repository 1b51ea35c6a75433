// SPDX-License-Identifier: Apache-2.0
// A field of the panel that shows one of several names and opens a list of all of them, by the mouse or by keys. Dear
// ImGui's own combo opens by keys only under its own keyboard navigation, and the panel has another (panel_focus.h).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "panel_focus.h"

namespace headscope::ui {

struct PanelListEntry {
  std::string name;     // stable, for controls
  std::string text;     // as shown
  std::string help;     // its tooltip; may be empty
  std::string heading;  // drawn before it; may be empty
};

class PanelList {
 public:
  // `mark` is called after each entry, with its name: it notes where that was drawn.
  using Mark = std::function<void(const std::string& entry)>;

  // Draws the field, `width` wide (negative: to that far from the window's right edge), and the list below it while
  // it is open. The field is ImGui's last item afterwards. Returns the index of the entry that was picked.
  std::optional<size_t> Draw(const char* id, float width, const std::vector<PanelListEntry>& entries, size_t present,
                             const Mark& mark);

  // Opens or closes the list with the next frame.
  void Toggle() { (is_open_ ? close_ : open_) = true; }
  void Close() { close_ = is_open_; }
  bool is_open() const { return is_open_; }
  // The keys of an open list: up, down and the ends move, activation picks, Esc takes the filter away or else closes.
  // False while it is closed.
  bool HandleKey(PanelKey key);
  // Letters that are typed into an open list leave those entries that have every typed word in their text, help or
  // heading, in any case, and mark the first that is called so. False while it is closed, and of a space before any
  // letter, which picks as everywhere.
  bool HandleText(const std::string& letters);
  bool EraseText();  // the last letter; false while there is none

 private:
  void DrawEntries(const std::vector<PanelListEntry>& entries, size_t present, const Mark& mark);
  void DrawFilter(size_t num_entries) const;
  void Filter();      // makes in_sight_ of filter_
  void Move(int by);  // among those in sight, as far as there are any

  bool is_open_ = false;
  bool open_ = false, close_ = false;  // wanted
  bool pick_ = false;                  // the candidate, by a key
  bool show_candidate_ = false;        // it moved by a key: scroll it into sight
  size_t candidate_ = 0;               // what a key would pick; one of those in sight, if there is any
  std::string filter_;                 // typed since it was opened
  std::vector<std::string> searched_;  // of each entry, in small letters
  std::vector<size_t> in_sight_;       // the entries that the filter leaves
  std::optional<size_t> picked_;
};

}  // namespace headscope::ui
