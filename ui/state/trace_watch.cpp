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

// The name that a capture gives DIR/NAME.partial.EXT or DIR/NAME.partial-2.EXT when it is whole, or a file of such a
// trace, DIR/NAME.partial-00001-of-00002.EXT; empty: `path` is none.
QString TargetOf(const QString& path) {
  static const QRegularExpression kPartial(
      QStringLiteral("^(.+)\\.partial(?:-[0-9]+)?(-[0-9]{5}-of-[0-9]{5})?(\\.[^./]*)?$"));
  const QRegularExpressionMatch match = kPartial.match(path);
  return match.hasMatch() ? match.captured(1) + match.captured(2) + match.captured(3) : QString();
}

QStringList AbsolutePaths(const QStringList& files) {
  QStringList paths;
  for (const QString& file : files) paths << QFileInfo(file).absoluteFilePath();
  return paths;
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

TraceWatch::FileStates TraceWatch::StatesOf(const QStringList& files) {
  FileStates states;
  for (const QString& path : files) {
    FileState& state = states.emplace_back();
    struct stat file {};
    if (::stat(QFile::encodeName(path).constData(), &file) != 0 || !S_ISREG(file.st_mode)) continue;
    state = {file.st_size, qint64{file.st_mtim.tv_sec} * 1'000'000'000 + file.st_mtim.tv_nsec, file.st_dev,
             file.st_ino};
  }
  return states;
}

bool TraceWatch::AreSameFiles(const FileStates& some, const FileStates& others) {
  return std::ranges::equal(some, others, [](const FileState& a, const FileState& b) { return a.IsSameFile(b); });
}

qint64 TraceWatch::Bytes(const FileStates& files) {
  qint64 bytes = 0;
  for (const FileState& file : files) bytes += file.size;
  return bytes;
}

void TraceWatch::Opening(const QStringList& files) {
  // Of two, the one before is given up.
  cut_short_ = cut_short_ || (is_opening() && opening_files_ == files_);
  opening_files_ = AbsolutePaths(files);
  opening_ = StatesOf(opening_files_);
}

void TraceWatch::Opened(const TraceSummary& trace) {
  QStringList files;
  for (const std::string& file : trace.files) files << QString::fromStdString(file);
  if (files.isEmpty()) files << QString::fromStdString(trace.path);
  files = AbsolutePaths(files);
  const bool is_asked = std::exchange(opening_files_, {}) == files;
  // By its new name it is the same trace.
  const FileStates now = StatesOf(files);
  if (files != files_ && !AreSameFiles(now, last_)) {
    has_changed_ = is_written_ = false;
    longest_interval_ms_ = 0;
    written_ms_ = -1;
  }
  files_ = files;
  opened_ = is_asked ? opening_ : now;
  last_ = now;
  if (now != opened_) {
    has_changed_ = true;
    written_ms_ = -1;
  }
  told_ = is_gone_ = cut_short_ = is_half_renamed_ = false;
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
  if (std::exchange(opening_files_, {}) == files_) {
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
  qint64 modified = 0;
  for (const FileState& file : last_) modified = std::max(modified, file.modified);
  return std::max<qint64>(0, (QDateTime::currentMSecsSinceEpoch() - modified / 1'000'000) / 1000);
}

void TraceWatch::Missing(const FileStates& now) {
  // Who is known to write it says by what name it goes on.
  if (writer_known_ || is_opening()) return;
  QStringList targets;
  for (const QString& file : files_) targets << TargetOf(file);
  FileStates there = StatesOf(targets);
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i].IsThere()) there[i] = now[i];
  }
  const bool some_are = std::ranges::any_of(now, &FileState::IsThere);
  // The files of a trace get their names one after the other.
  if (some_are && AreSameFiles(there, last_) && !std::exchange(is_half_renamed_, true)) return;
  timer_.stop();
  is_written_ = false;
  is_gone_ = some_are || !AreSameFiles(there, last_);
  Q_EMIT Looked();
  if (!is_gone_) Q_EMIT Renamed(targets.front());
}

void TraceWatch::PassTime(qint64 ms) {
  passed_ms_ += ms;
  Look(clock_.elapsed() + passed_ms_);
}

void TraceWatch::Look(qint64 now_ms) {
  const FileStates now = StatesOf(files_);
  if (!std::ranges::all_of(now, &FileState::IsThere)) return Missing(now);
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
  if (!rests_long && static_cast<double>(Bytes(now)) < least * static_cast<double>(Bytes(opened_))) return;
  told_ = true;
  Q_EMIT Grown();
}

}  // namespace headscope::ui
