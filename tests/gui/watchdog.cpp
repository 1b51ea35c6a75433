// SPDX-License-Identifier: Apache-2.0
#include "watchdog.h"

#include <unistd.h>

#include <QMetaEnum>
#include <QOpenGLWidget>
#include <QString>
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <utility>
#include <vector>

#include "gl_surface.h"
#include "patience.h"

namespace headscope::gui_test {
namespace {

constexpr double kDefaultLimitMs = 50;
// Names the events that were too long in the run before this one, each between two ends of lines.
constexpr const char* kLongBefore = "HEADSCOPE_WATCHDOG_LONG_BEFORE";

struct FirstLong {
  std::set<std::string> cases, events;
};
FirstLong first_long;
bool one_run_decides = false;
WatchdogListener* listener = nullptr;

double ThreadMilliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

// Work of the kind that a window does, and what it takes on a core of the server that the limit was chosen on.
constexpr double kYardstickMs = 1.7;

double YardstickMs() {
  const double begun = ThreadMilliseconds();
  std::vector<QString> texts;
  quint32 state = 1;
  for (int i = 0; i < 6000; ++i) {
    state = state * 1664525U + 1013904223U;
    texts.push_back(QString::number(state));
  }
  std::sort(texts.begin(), texts.end());
  qsizetype sevens = 0;
  for (const QString& text : texts) sevens += text.count(u'7');
  return sevens > 0 ? ThreadMilliseconds() - begun : 0;
}

// How many times slower than that core this one is just now; at least 1.
double Slowness() {
  double least = YardstickMs();
  for (int again = 0; again < 2; ++again) least = std::min(least, YardstickMs());
  return std::max(1.0, least / kYardstickMs);
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

double WatchedApplication::LimitHereMs() {
  return qEnvironmentVariableIsSet("HEADSCOPE_WATCHDOG_MS") ? LimitMs()
                                                            : std::max(LimitMs(), kDefaultLimitMs * Slowness());
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
  if (!watched || own <= LimitMs()) return done;
  const double yardstick_begun = ThreadMilliseconds(), limit = LimitHereMs();
  nested_ms_ += ThreadMilliseconds() - yardstick_begun;  // no event's fault
  if (own > limit) {
    const char* const kind = QMetaEnum::fromType<QEvent::Type>().valueToKey(type);
    const std::string event_name = name + ": " + (kind == nullptr ? std::to_string(type) : std::string(kind));
    hits_.push_back({event_name, event_name + " kept the window's thread busy for " +
                                     std::to_string(static_cast<int>(own)) + " ms; at most " +
                                     std::to_string(static_cast<int>(limit)) + " ms are allowed"});
  }
  return done;
}

std::vector<LongEvent> WatchedApplication::TakeHits() {
  return std::exchange(hits_, {});
}

void ExpectOnlyHitsOf(const std::string& event) {
  for (const LongEvent& hit : static_cast<WatchedApplication*>(qApp)->TakeHits()) {
    if (hit.sentence.rfind(event, 0) != 0) listener->Count(hit);
  }
}

void DecideByOneRun() {
  one_run_decides = true;
}

WatchdogListener::WatchdogListener(WatchedApplication* application) : application_(application) {
  listener = this;
}

WatchdogListener::~WatchdogListener() {
  listener = nullptr;
}

void WatchdogListener::OnTestEnd(const ::testing::TestInfo&) {
  for (const LongEvent& hit : application_->TakeHits()) Count(hit);
}

void WatchdogListener::Count(const LongEvent& event) {
  const char* const before = std::getenv(kLongBefore);
  if (before == nullptr) {
    const ::testing::TestInfo* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    const std::string name = std::string(test->test_suite_name()) + "." + test->name();
    if (one_run_decides) {
      ADD_FAILURE() << event.sentence;
      return;
    }
    std::cerr << name << ": " << event.sentence << "\n";
    first_long.cases.insert(name);
    first_long.events.insert(event.name);
  } else if (const std::string all = before; all.find("\n" + event.name + "\n") != std::string::npos) {
    ADD_FAILURE() << event.sentence << ", as in the run before this one";
  } else {
    std::cerr << event.sentence << ", but not in the run before this one\n";
  }
}

int WatchdogListener::EndOrRunAgain(int result, const std::vector<std::string>& arguments) {
  if (result != 0 || first_long.cases.empty()) return result;
  std::string filter = "--gtest_filter=", events = "\n";
  for (const std::string& name : first_long.cases) filter += name + ":";
  for (const std::string& name : first_long.events) events += name + "\n";
  setenv(kLongBefore, events.c_str(), 1);
  std::vector<std::string> all = arguments;
  all.push_back(filter);
  std::vector<char*> words;
  for (std::string& argument : all) words.push_back(argument.data());
  words.push_back(nullptr);
  std::cout.flush();
  std::cerr << "run once more, for an event that took too long: " << filter << "\n";
  execv("/proc/self/exe", words.data());
  std::cerr << "the cases with long events cannot be run again\n";
  return EXIT_FAILURE;
}

}  // namespace headscope::gui_test
