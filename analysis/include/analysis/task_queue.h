// SPDX-License-Identifier: Apache-2.0
// Background work of the application: requests carry a tag, a new request cancels queued and running ones of the same
// tag, results are handed to the caller's dispatcher (the UI thread). One queue serves a window.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

namespace headscope::analysis {

class TaskQueue {
 public:
  // Called from a worker; must run (or post) the function on the owner's thread.
  using Dispatcher = std::function<void(std::function<void()>)>;
  TaskQueue(int32_t num_workers, Dispatcher dispatcher);
  ~TaskQueue();  // cancels everything and joins

  // Tasks of a priority below 0 are nobody's to wait for: they leave one worker, if there are several, to the others,
  // however long they take. Runs `work` on a worker; `work` looks at the token, returns early when it is asked to stop,
  // and does not throw. Then `done` on the owner's thread, unless cancelled. Higher priority first; equal: oldest
  // first. What `work` captured is freed on the worker, what `done` captured where `done` ran; that of a cancelled task
  // on either. Never under the queue's lock.
  void Submit(const std::string& tag, int32_t priority, std::function<void(const std::stop_token&)> work,
              std::function<void()> done);
  // Cancels queued and running tasks whose tag starts with `prefix`.
  void Cancel(const std::string& prefix);
  // For a task that measures: waits, inside its work, until no other task has run or waited for a moment, so that its
  // times are its own; or until `stop` is requested, or for `at_most`. With one worker nothing runs beside it.
  void WaitUntilAlone(const std::stop_token& stop, std::chrono::milliseconds at_most);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headscope::analysis
