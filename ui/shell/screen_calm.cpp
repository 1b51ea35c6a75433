// SPDX-License-Identifier: Apache-2.0
#include "screen_calm.h"

#include <QEvent>
#include <utility>

namespace headscope::ui {
namespace {

// Counted in rounds of the event loop and not in time alone: on a busy machine a frame that is due can wait for long,
// but not past the events of the next round. The first frame after a change may lay out anew, which asks for a second.
constexpr int kLookEveryMs = 5;
constexpr int kCalmLooks = 6;

}  // namespace

ScreenCalm::ScreenCalm(QWidget* window, std::function<bool(Drawn)> is_due)
    : QObject(window), is_due_(std::move(is_due)) {
  // Every widget's frame begins with a request to its window.
  window->installEventFilter(this);
  look_.setInterval(kLookEveryMs);
  connect(&look_, &QTimer::timeout, this, &ScreenCalm::Look);
}

void ScreenCalm::Then(Drawn what, std::function<void()> then) {
  Waiting waiting{what, std::move(then), {}};
  waiting.since.start();
  looks_ = 0;  // what was asked for just now is drawn by an event that has yet to come
  waiting_.push_back(std::move(waiting));
  look_.start();
}

bool ScreenCalm::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::UpdateRequest) looks_ = 0;
  return QObject::eventFilter(watched, event);
}

void ScreenCalm::Look() {
  const bool calm = ++looks_ >= kCalmLooks && !is_due_(Drawn::kFrames), tile_due = is_due_(Drawn::kTiles);
  std::vector<Waiting> ready;
  std::erase_if(waiting_, [&](Waiting& one) {
    const bool waits_for_tile = one.what == Drawn::kTiles && tile_due;
    const bool is_ready = !waits_for_tile && (calm || one.since.elapsed() >= kLongestMs);
    if (is_ready) ready.push_back(std::move(one));
    return is_ready;
  });
  if (waiting_.empty()) look_.stop();
  for (const Waiting& one : ready) one.then();
}

}  // namespace headscope::ui
