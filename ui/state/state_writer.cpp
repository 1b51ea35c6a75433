// SPDX-License-Identifier: Apache-2.0
#include "state_writer.h"

#include <algorithm>
#include <chrono>

namespace headscope::ui {

StateWriter::StateWriter(QObject* parent) : QObject(parent), thread_([this] { Run(); }) {}

StateWriter::~StateWriter() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StateWriter::Write(const QString& key, Work work, Done done) {
  const std::lock_guard lock(mutex_);
  waiting_.remove_if([&](const Job& job) { return job.key == key; });
  waiting_.push_back({key, std::move(work), std::move(done)});
  changed_.notify_all();
}

void StateWriter::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    Job job = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    lock.unlock();
    const QString error = job.work();
    job.work = nullptr;
    lock.lock();
    busy_ = false;
    if (job.done) finished_.emplace_back(std::move(job.done), error);
    changed_.notify_all();
    if (!stop_) QMetaObject::invokeMethod(this, &StateWriter::TellAll, Qt::QueuedConnection);
  }
}

void StateWriter::TellAll() {
  for (;;) {
    std::pair<Done, QString> finished;
    {
      const std::lock_guard lock(mutex_);
      if (finished_.empty()) return;
      finished = std::move(finished_.front());
      finished_.pop_front();
    }
    finished.first(finished.second);
  }
}

bool StateWriter::Finish(int at_most_ms) {
  bool all = false;
  {
    std::unique_lock lock(mutex_);
    all = changed_.wait_for(lock, std::chrono::milliseconds(at_most_ms), [this] { return waiting_.empty() && !busy_; });
  }
  TellAll();
  return all;
}

}  // namespace headscope::ui
