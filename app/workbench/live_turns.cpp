// SPDX-License-Identifier: Apache-2.0
#include "live_turns.h"

#include <iterator>

namespace headscope::app {

void LiveTurns::Ask(Who who, WaitForScreen wait, std::function<void(Turn)> begin) {
  Leave(who);
  waiting_.push_back({next_number_++, who, std::move(wait), std::move(begin)});
  GiveNext();
}

void LiveTurns::Leave(Who who) {
  // Let go of when the line is whole again: what they hold may call back.
  std::list<Waiting> left;
  for (auto entry = waiting_.begin(); entry != waiting_.end();) {
    const auto next = std::next(entry);
    if (entry->who == who) left.splice(left.end(), waiting_, entry);
    entry = next;
  }
}

void LiveTurns::GiveNext() {
  if (waiting_.empty() || !given_.expired()) return;
  // Held once, by the window: a call that it drops ends the turn, and so does one that it makes and keeps.
  const auto held = std::make_shared<Turn>(this, [post = post_, weak = weak_from_this()](void*) {
    post([weak] {
      if (const auto turns = weak.lock()) turns->GiveNext();
    });
  });
  given_ = *held;
  const WaitForScreen wait = waiting_.front().wait;  // its place may be gone before it returns
  wait([weak = weak_from_this(), held, asked_before = next_number_] {
    const auto turns = weak.lock();
    Turn turn = std::exchange(*held, nullptr);
    if (!turns || !turn || turns->waiting_.empty()) return;
    // Of whoever has asked since, the screen may have drawn nothing yet: without this turn, it is waited for again.
    if (turns->waiting_.front().number >= asked_before) return;
    const Waiting next = std::move(turns->waiting_.front());
    turns->waiting_.pop_front();
    next.begin(std::move(turn));
  });
}

}  // namespace headscope::app
