// SPDX-License-Identifier: Apache-2.0
#include "analysis/task_queue.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/errors.h"

namespace headscope::analysis {
namespace {

struct Task {
  std::string tag;
  std::function<void(const std::stop_token&)> work;
  std::function<void()> done;
  std::stop_source stop;
};
using TaskPtr = std::shared_ptr<Task>;

// Order of the waiting line: higher priority first, then older first.
using Place = std::pair<int32_t, uint64_t>;

}  // namespace

struct TaskQueue::Impl {
  Impl(Dispatcher dispatcher_function, size_t wanted)
      : dispatcher(std::move(dispatcher_function)), most_background(std::max<size_t>(wanted, 2) - 1) {}

  // `mutex` guards everything below it.
  mutable std::mutex mutex;
  std::condition_variable work_available;
  std::condition_variable became_idle;
  std::map<Place, TaskPtr> waiting;
  std::list<TaskPtr> running;
  // Handed to the dispatcher, perhaps not yet run: Cancel must reach these too. Entries whose function has run have
  // expired.
  std::vector<std::weak_ptr<Task>> posted;
  uint64_t next_number = 0;
  size_t running_background = 0;
  bool stopping = false;

  const Dispatcher dispatcher;
  const size_t most_background;  // of tasks that run
  std::vector<std::thread> workers;

  static bool IsBackground(const Place& place) { return place.first > 0; }  // the negated priority
  bool HasWorkLocked() const {
    return !waiting.empty() && (!IsBackground(waiting.begin()->first) || running_background < most_background);
  }
  bool IdleLocked() const { return waiting.empty() && running.empty(); }

  // Returns the tasks that left the line, for the caller to let go of without the lock: what they captured may be large
  // (a trace) and slow to free, and its destructor may call the queue.
  template <typename Matches>
  [[nodiscard]] std::vector<TaskPtr> CancelLocked(Matches&& matches) {
    std::vector<TaskPtr> dropped;
    std::erase_if(waiting, [&](const auto& entry) {
      if (!matches(entry.second->tag)) return false;
      entry.second->stop.request_stop();
      dropped.push_back(entry.second);
      return true;
    });
    for (const TaskPtr& task : running) {
      if (matches(task->tag)) task->stop.request_stop();
    }
    std::erase_if(posted, [&](const std::weak_ptr<Task>& entry) {
      const TaskPtr task = entry.lock();
      if (task != nullptr && matches(task->tag)) task->stop.request_stop();
      return task == nullptr;
    });
    if (IdleLocked()) became_idle.notify_all();
    return dropped;
  }

  void Work() {
    std::unique_lock lock(mutex);
    while (true) {
      work_available.wait(lock, [&] { return stopping || HasWorkLocked(); });
      if (stopping) return;
      const bool is_background = IsBackground(waiting.begin()->first);
      if (is_background) ++running_background;
      TaskPtr task = waiting.begin()->second;
      waiting.erase(waiting.begin());
      const auto place = running.insert(running.end(), task);
      lock.unlock();
      try {
        task->work(task->stop.get_token());
      } catch (const CancelledError&) {
        // It was asked to end, and so there is nothing to deliver.
      }
      task->work = nullptr;  // frees what the work captured, here rather than on the owner's thread
      lock.lock();
      const bool deliver = !task->stop.stop_requested() && task->done != nullptr;
      if (deliver) {
        std::erase_if(posted, [](const std::weak_ptr<Task>& entry) { return entry.expired(); });
        posted.push_back(task);
        lock.unlock();
        // The last look at the request is on the owner's thread, so a Cancel made there is never followed by `done`.
        // What `done` captured is the owner's, and goes with the posted function alone.
        dispatcher([task, done = std::move(task->done)] {
          if (!task->stop.stop_requested()) done();
        });
        lock.lock();
      }
      running.erase(place);
      if (is_background) --running_background;
      if (IdleLocked()) became_idle.notify_all();
      lock.unlock();
      task.reset();
      lock.lock();
    }
  }
};

TaskQueue::TaskQueue(int32_t num_workers, Dispatcher dispatcher)
    : impl_(std::make_unique<Impl>(std::move(dispatcher), static_cast<size_t>(std::max(1, num_workers)))) {
  const auto wanted = static_cast<size_t>(std::max(1, num_workers));
  impl_->workers.reserve(wanted);
  try {
    while (impl_->workers.size() < wanted) impl_->workers.emplace_back([impl = impl_.get()] { impl->Work(); });
  } catch (const std::system_error&) {
    if (impl_->workers.empty()) throw;  // the system gives no thread at all; one does the work of all, later
  }
}

TaskQueue::~TaskQueue() {
  std::vector<TaskPtr> dropped;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
    dropped = impl_->CancelLocked([](const std::string&) { return true; });
  }
  impl_->work_available.notify_all();
  for (std::thread& worker : impl_->workers) worker.join();
}

void TaskQueue::Submit(const std::string& tag, int32_t priority, std::function<void(const std::stop_token&)> work,
                       std::function<void()> done) {
  auto task = std::make_shared<Task>();
  task->tag = tag;
  task->work = std::move(work);
  task->done = std::move(done);
  std::vector<TaskPtr> dropped;
  {
    const std::lock_guard lock(impl_->mutex);
    dropped = impl_->CancelLocked([&](const std::string& other) { return other == tag; });
    impl_->waiting.emplace(Place{-priority, impl_->next_number++}, std::move(task));
  }
  impl_->work_available.notify_one();
}

void TaskQueue::Cancel(const std::string& prefix) {
  std::vector<TaskPtr> dropped;
  const std::lock_guard lock(impl_->mutex);
  dropped = impl_->CancelLocked([&](const std::string& tag) { return tag.starts_with(prefix); });
}

void TaskQueue::WaitUntilAlone(const std::stop_token& stop, std::chrono::milliseconds at_most) {
  // What one task answers may ask for the next a frame later, and that frame, too, is work.
  constexpr std::chrono::milliseconds kCalm(150);
  const auto end = std::chrono::steady_clock::now() + at_most;
  auto alone_since = std::chrono::steady_clock::now();
  std::unique_lock lock(impl_->mutex);
  while (!stop.stop_requested()) {
    const auto now = std::chrono::steady_clock::now();
    if (impl_->running.size() > 1 || (!impl_->waiting.empty() && impl_->workers.size() > 1)) alone_since = now;
    if (now >= end || now - alone_since >= kCalm) return;
    // Nobody tells when a task ends while others run, and `stop` is requested without a word: look again soon.
    impl_->became_idle.wait_for(lock, std::chrono::milliseconds(2));
  }
}

}  // namespace headscope::analysis
