// SPDX-License-Identifier: Apache-2.0
#include "trace_watch.h"

#include <sys/stat.h>

#include <QDateTime>
#include <QFile>
#include <QFileInfo>
#include <QRegularExpression>
#include <algorithm>
#include <utility>

namespace headscope::ui {
namespace {

// The name that a capture gives DIR/NAME.partial.EXT or DIR/NAME.partial-2.EXT when it is whole; empty: `path` is none.
QString TargetOf(const QString& path) {
  static const QRegularExpression kPartial(QStringLiteral("^(.+)\\.partial(-[0-9]+)?(\\.[^./]*)?$"));
  const QRegularExpressionMatch match = kPartial.match(path);
  return match.hasMatch() ? match.captured(1) + match.captured(3) : QString();
}

template <typename T>
bool BeginsWith(const std::vector<T>& whole, const std::vector<T>& part) {
  return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
}

}  // namespace

bool HasGrownFrom(const TraceSummary& before, const TraceSummary& now) {
  return before.model_name == now.model_name && before.prompt_source == now.prompt_source &&
         before.first_token == now.first_token && before.num_layers == now.num_layers && before.heads == now.heads &&
         before.head_dim_of_head == now.head_dim_of_head && BeginsWith(now.token_text, before.token_text) &&
         BeginsWith(now.row_positions, before.row_positions);
}

TraceWatch::TraceWatch(QObject* parent) : QObject(parent) {
  clock_.start();
  timer_.setInterval(kLookMs);
  connect(&timer_, &QTimer::timeout, this, [this] { PassTime(0); });
}

TraceWatch::FileState TraceWatch::StateOf(const QString& path) {
  struct stat file {};
  if (::stat(QFile::encodeName(path).constData(), &file) != 0 || !S_ISREG(file.st_mode)) return {};
  return {file.st_size, qint64{file.st_mtim.tv_sec} * 1'000'000'000 + file.st_mtim.tv_nsec, file.st_dev, file.st_ino};
}

void TraceWatch::Opening(const QString& path) {
  // Of two, the one before is given up.
  cut_short_ = cut_short_ || (is_opening() && opening_path_ == path_);
  opening_path_ = QFileInfo(path).absoluteFilePath();
  opening_ = StateOf(opening_path_);
}

void TraceWatch::Opened(const TraceSummary& trace) {
  const QString path = QFileInfo(QString::fromStdString(trace.path)).absoluteFilePath();
  const bool is_asked = std::exchange(opening_path_, {}) == path;
  // By its new name it is the same file.
  const FileState now = StateOf(path);
  if (path != path_ && (now.size < 0 || now.device != last_.device || now.inode != last_.inode)) {
    has_changed_ = is_written_ = false;
    longest_interval_ms_ = 0;
    written_ms_ = -1;
  }
  path_ = path;
  opened_ = is_asked ? opening_ : now;
  last_ = now;
  if (now != opened_) {
    has_changed_ = true;
    written_ms_ = -1;
  }
  told_ = is_gone_ = cut_short_ = false;
  if (trace.complete) {
    timer_.stop();
    is_written_ = false;
  } else {
    // Of one that has grown while it was read it is known already; and who writes it may be known.
    is_written_ = is_written_ || writer_known_ || now != opened_;
    timer_.start(kLookMs);
  }
  Q_EMIT Looked();
}

void TraceWatch::NotOpened() {
  if (std::exchange(opening_path_, {}) == path_) {
    opened_ = opening_;  // it was to be read again: the next piece is another occasion
    told_ = false;
  } else if (cut_short_) {
    told_ = false;  // it was about to be
  }
  cut_short_ = false;
}

void TraceWatch::SetWriterKnown(bool known) {
  if (known == writer_known_) return;
  writer_known_ = known;
  if (known && timer_.isActive()) {
    is_written_ = true;
    timer_.setInterval(kLookMs);
  }
  Q_EMIT Looked();
}

qint64 TraceWatch::QuietSeconds() const {
  const qint64 now = QDateTime::currentMSecsSinceEpoch(), modified = last_.modified / 1'000'000;
  return std::max<qint64>(0, (now - modified) / 1000);
}

void TraceWatch::Missing() {
  // Who is known to write it says by what name it goes on.
  if (writer_known_ || is_opening()) return;
  timer_.stop();
  is_written_ = false;
  const QString target = TargetOf(path_);
  const FileState there = target.isEmpty() ? FileState() : StateOf(target);
  is_gone_ = there.size < 0 || there.device != last_.device || there.inode != last_.inode;
  Q_EMIT Looked();
  if (!is_gone_) Q_EMIT Renamed(target);
}

void TraceWatch::PassTime(qint64 ms) {
  passed_ms_ += ms;
  Look(clock_.elapsed() + passed_ms_);
}

void TraceWatch::Look(qint64 now_ms) {
  const FileState now = StateOf(path_);
  if (now.size < 0) return Missing();
  if (written_ms_ < 0) written_ms_ = now_ms;
  if (now != last_) {
    if (has_changed_) longest_interval_ms_ = std::max(longest_interval_ms_, now_ms - written_ms_);
    has_changed_ = true;
    written_ms_ = now_ms;
    last_ = now;
  }
  const qint64 quiet = now_ms - written_ms_;
  const qint64 rest = std::clamp(kRestIntervals * longest_interval_ms_, kLeastRestMs, kMostRestMs);
  const bool rests = !writer_known_ && quiet >= rest, rests_long = !writer_known_ && quiet >= 2 * rest;
  is_written_ = writer_known_ || (has_changed_ && !rests);
  // What is quiet for long is seldom written to again, and may lie on a disk that answers slowly.
  timer_.setInterval(rests_long ? kLookAtRestMs : kLookMs);
  Q_EMIT Looked();
  if (told_ || is_opening() || now == opened_) return;
  const double least = rests ? kGrowthAtRest : kWorthwhileGrowth;
  if (!rests_long && static_cast<double>(now.size) < least * static_cast<double>(opened_.size)) return;
  told_ = true;
  Q_EMIT Grown();
}

}  // namespace headscope::ui
