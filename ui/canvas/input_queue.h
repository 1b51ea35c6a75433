// SPDX-License-Identifier: Apache-2.0
// Input events on their way to Dear ImGui, spread over frames so that none is lost.
//
// ImGui looks at the state of mouse and keys once a frame: a button that goes down and up between two frames was never
// pressed. This queue keeps the order of events and gives each frame at most one button transition, with the pointer
// already at its place since the frame before (ImGui decides what is hovered before it sees the press), and at most one
// transition per key. Versions 1.87 and newer have such a queue inside; feeding them one frame's worth at a time makes
// all versions behave alike. No Qt and no ImGui here.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace headscope::ui {

// The keys that ImGui's widgets look at.
enum class InputKey : uint8_t {
  kTab,
  kLeft,
  kRight,
  kUp,
  kDown,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kInsert,
  kDelete,
  kBackspace,
  kSpace,
  kReturn,
  kEnter,
  kEscape,
  kA,
  kC,
  kV,
  kX,
  kY,
  kZ,
  kControl,
  kShift,
  kAlt,
  kSuper,
};
inline constexpr int kNumInputKeys = static_cast<int>(InputKey::kSuper) + 1;
inline constexpr int kNumMouseButtons = 3;  // left, right, middle

struct PointerPosition {
  float x = 0, y = 0;  // logical pixels
  friend bool operator==(const PointerPosition&, const PointerPosition&) = default;
};

// What one frame is told, in the order: focus, position, button, wheel, keys, text.
struct FrameInput {
  std::optional<bool> focus;
  std::optional<PointerPosition> position;
  bool double_press = false;                    // the button's press ends a double click
  bool pointer_left = false;                    // the pointer is nowhere
  std::optional<std::pair<int, bool>> button;   // button, down
  float wheel_x = 0, wheel_y = 0;               // notches; positive y is away from the user
  std::vector<std::pair<InputKey, bool>> keys;  // key, down
  std::string text;                             // UTF-8
};

class InputQueue {
 public:
  void Move(float x, float y);
  // double_press: the window system judged this press to be the second of a double click; frames may be too far apart
  // for ImGui to see that.
  void Button(int button, bool down, bool double_press = false);
  void Wheel(float notches_x, float notches_y);
  void Key(InputKey key, bool down);  // repeats of a held key are dropped: ImGui repeats by itself
  void Text(std::string utf8);
  // The pointer left the widget. While a button is held the drag goes on, and the pointer leaves when the button is
  // released.
  void Leave();
  // Losing the focus releases every held key and button first: their releases go to another window.
  void Focus(bool focused);

  bool empty() const { return events_.empty(); }
  bool AnyButtonHeld() const { return !held_buttons_.empty(); }

  // Takes the events of one frame, in order. Call once per frame until empty().
  FrameInput TakeFrame();

 private:
  enum class Kind : uint8_t { kMove, kLeave, kButton, kWheel, kKey, kText, kFocus };
  struct Event {
    Kind kind = Kind::kMove;
    PointerPosition position = {};  // also the wheel's notches
    int button = 0;
    InputKey key = InputKey::kTab;
    bool on = false;  // down, focused
    bool double_press = false;
    std::string text = {};
  };
  static bool FitsFrame(const Event& event, const FrameInput& frame);

  std::deque<Event> events_;
  std::set<InputKey> held_keys_;  // as of the newest event
  std::set<int> held_buttons_;
  std::optional<PointerPosition> position_;  // as of the newest event; none: the pointer is not here
  bool left_during_drag_ = false;
};

}  // namespace headscope::ui
