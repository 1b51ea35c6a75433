// SPDX-License-Identifier: Apache-2.0
#include "watchdog.h"

#include <QMetaEnum>
#include <QOpenGLWidget>
#include <ctime>
#include <utility>

#include "gl_surface.h"
#include "patience.h"

namespace headscope::gui_test {
namespace {

constexpr double kDefaultLimitMs = 50;

double ThreadMilliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

// What a software renderer or the first look at a window costs is not the code's that is tested: frames of OpenGL are
// measured where there is a GPU (headscope bench --gui), and a window is shown once.
bool IsWatched(const QObject* receiver, const QEvent& event) {
  switch (event.type()) {
    case QEvent::Show:
    case QEvent::ShowToParent:
    case QEvent::Polish:
    case QEvent::PolishRequest:
    case QEvent::PaletteChange:
    case QEvent::ApplicationPaletteChange:
    case QEvent::StyleChange:
    case QEvent::Expose:
    case QEvent::UpdateRequest:
      return false;
    case QEvent::Paint:
    case QEvent::Resize:
      return qobject_cast<const QOpenGLWidget*>(receiver) == nullptr &&
             qobject_cast<const ui::GlSurface*>(receiver) == nullptr;
    default:
      return true;
  }
}

}  // namespace

double WatchedApplication::LimitMs() {
  bool set = false;
  const double milliseconds = qEnvironmentVariable("HEADSCOPE_WATCHDOG_MS").toDouble(&set);
  return set ? milliseconds : kDefaultLimitMs * Patience();
}

bool WatchedApplication::notify(QObject* receiver, QEvent* event) {
  const QEvent::Type type = event->type();
  const bool watched = IsWatched(receiver, *event);
  // It may delete its receiver.
  const std::string name =
      std::string(receiver->metaObject()->className()) + " " + receiver->objectName().toStdString();
  const double outside = std::exchange(nested_ms_, 0), begun = ThreadMilliseconds();
  const bool done = QApplication::notify(receiver, event);
  const double all = ThreadMilliseconds() - begun, own = all - nested_ms_;
  nested_ms_ = outside + all;
  if (watched && own > LimitMs()) {
    const char* const kind = QMetaEnum::fromType<QEvent::Type>().valueToKey(type);
    hits_.push_back(name + ": " + (kind == nullptr ? std::to_string(type) : std::string(kind)) +
                    " kept the window's thread busy for " + std::to_string(static_cast<int>(own)) + " ms");
  }
  return done;
}

std::vector<std::string> WatchedApplication::TakeHits() {
  return std::exchange(hits_, {});
}

void ExpectOnlyHitsOf(const std::string& event) {
  for (const std::string& hit : static_cast<WatchedApplication*>(qApp)->TakeHits())
    EXPECT_EQ(hit.rfind(event, 0), 0U) << hit;
}

void WatchdogListener::OnTestEnd(const ::testing::TestInfo&) {
  for (const std::string& hit : application_->TakeHits())
    ADD_FAILURE() << hit << "; at most " << WatchedApplication::LimitMs() << " ms are allowed";
}

}  // namespace headscope::gui_test
