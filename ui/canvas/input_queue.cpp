// SPDX-License-Identifier: Apache-2.0
#include "input_queue.h"

#include <algorithm>

namespace headscope::ui {

void InputQueue::Move(float x, float y) {
  left_during_drag_ = false;
  const PointerPosition position{x, y};
  if (position_ == position) return;  // a press or a wheel at rest: no frame is owed to it
  position_ = position;
  // Only the newest of consecutive moves matters.
  if (!events_.empty() && events_.back().kind == Kind::kMove) {
    events_.back().position = position;
    return;
  }
  events_.push_back({.kind = Kind::kMove, .position = position});
}

void InputQueue::Button(int button, bool down, bool double_press) {
  if (button < 0 || button >= kNumMouseButtons) return;
  const bool changed = down ? held_buttons_.insert(button).second : held_buttons_.erase(button) > 0;
  if (!changed) return;
  events_.push_back({.kind = Kind::kButton, .button = button, .on = down, .double_press = double_press});
  if (held_buttons_.empty() && left_during_drag_) {
    left_during_drag_ = false;
    Leave();
  }
}

void InputQueue::Wheel(float notches_x, float notches_y) {
  if (notches_x == 0 && notches_y == 0) return;
  events_.push_back({.kind = Kind::kWheel, .position = {notches_x, notches_y}});
}

void InputQueue::Key(InputKey key, bool down) {
  const bool changed = down ? held_keys_.insert(key).second : held_keys_.erase(key) > 0;
  if (changed) events_.push_back({.kind = Kind::kKey, .key = key, .on = down});
}

void InputQueue::Text(std::string utf8) {
  if (!utf8.empty()) events_.push_back({.kind = Kind::kText, .text = std::move(utf8)});
}

void InputQueue::Leave() {
  if (AnyButtonHeld()) {
    left_during_drag_ = true;
  } else {
    position_.reset();
    events_.push_back({.kind = Kind::kLeave});
  }
}

void InputQueue::Focus(bool focused) {
  if (!focused) {
    const std::set<InputKey> keys = held_keys_;
    for (const InputKey key : keys) Key(key, false);
    const std::set<int> buttons = held_buttons_;
    for (const int button : buttons) Button(button, false);
  }
  events_.push_back({.kind = Kind::kFocus, .on = focused});
}

bool InputQueue::FitsFrame(const Event& event, const FrameInput& frame) {
  const bool pointer_moved = frame.position.has_value() || frame.pointer_left;
  const bool wheeled = frame.wheel_x != 0 || frame.wheel_y != 0;
  const bool typed = !frame.keys.empty() || !frame.text.empty();
  switch (event.kind) {
    case Kind::kMove:
    case Kind::kLeave:
      return !pointer_moved && !frame.button && !wheeled && !typed;
    case Kind::kButton:
      return !pointer_moved && !frame.button && !wheeled && !typed;
    case Kind::kWheel:
      return !pointer_moved && !frame.button && !typed;
    case Kind::kKey:
      return !frame.button && !wheeled && frame.text.empty() &&
             std::none_of(frame.keys.begin(), frame.keys.end(),
                          [&](const auto& key) { return key.first == event.key; });
    case Kind::kText:
      return !frame.button && !wheeled;
    case Kind::kFocus:
      return !frame.focus && !pointer_moved && !frame.button && !wheeled && !typed;
  }
  return true;
}

FrameInput InputQueue::TakeFrame() {
  FrameInput frame;
  while (!events_.empty() && FitsFrame(events_.front(), frame)) {
    Event event = std::move(events_.front());
    events_.pop_front();
    switch (event.kind) {
      case Kind::kMove:
        frame.position = event.position;
        break;
      case Kind::kLeave:
        frame.pointer_left = true;
        break;
      case Kind::kButton:
        frame.button = {event.button, event.on};
        frame.double_press = event.double_press;
        break;
      case Kind::kWheel:
        frame.wheel_x += event.position.x;
        frame.wheel_y += event.position.y;
        break;
      case Kind::kKey:
        frame.keys.emplace_back(event.key, event.on);
        break;
      case Kind::kText:
        frame.text += event.text;
        break;
      case Kind::kFocus:
        frame.focus = event.on;
        break;
    }
  }
  return frame;
}

}  // namespace headscope::ui
