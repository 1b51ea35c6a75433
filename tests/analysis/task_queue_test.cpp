// SPDX-License-Identifier: Apache-2.0
#include "analysis/task_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "support/idle_queue.h"

namespace headscope::analysis {
namespace {

// Stands for the owner's event loop: functions wait here until the test thread runs them.
class Mailbox {
 public:
  TaskQueue::Dispatcher Dispatcher() {
    return [this](std::function<void()> function) {
      const std::lock_guard lock(mutex_);
      functions_.push_back(std::move(function));
    };
  }
  void RunAll() {
    while (true) {
      std::function<void()> function;
      {
        const std::lock_guard lock(mutex_);
        if (functions_.empty()) return;
        function = std::move(functions_.front());
        functions_.pop_front();
      }
      function();
    }
  }

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> functions_;
};

// Holds a worker until opened.
class Gate {
 public:
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    arrived_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void WaitForArrival() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return arrived_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false, arrived_ = false;
};

TEST(TaskQueue, RunsHigherPriorityFirstThenOldest) {
  Mailbox mailbox;
  TaskQueue queue(1, mailbox.Dispatcher());
  Gate gate;
  std::vector<int> order;
  queue.Submit(
      "gate", 0, [&](const std::stop_token&) { gate.Pass(); }, nullptr);
  gate.WaitForArrival();
  const auto submit = [&](const char* tag, int priority, int number) {
    queue.Submit(
        tag, priority, [&order, number](const std::stop_token&) { order.push_back(number); }, nullptr);
  };
  submit("a", 1, 10);
  submit("b", 5, 50);
  submit("c", 1, 11);
  submit("d", 5, 51);
  gate.Open();
  test::WaitIdle(&queue);
  EXPECT_THAT(order, ::testing::ElementsAre(50, 51, 10, 11));
}

TEST(TaskQueue, NewRequestCancelsRunningAndQueuedOnesOfItsTag) {
  Mailbox mailbox;
  TaskQueue queue(1, mailbox.Dispatcher());
  Gate gate;
  bool first_saw_cancel = false;
  std::vector<int> done;
  queue.Submit(
      "mask", 0,
      [&](const std::stop_token& stop) {
        gate.Pass();
        first_saw_cancel = stop.stop_requested();
      },
      [&] { done.push_back(1); });
  gate.WaitForArrival();
  queue.Submit(
      "mask", 0, [](const std::stop_token&) { FAIL() << "a replaced request must not run"; },
      [&] { done.push_back(2); });
  queue.Submit(
      "mask", 0, [](const std::stop_token&) {}, [&] { done.push_back(3); });
  gate.Open();
  test::WaitIdle(&queue);
  mailbox.RunAll();
  EXPECT_TRUE(first_saw_cancel);
  EXPECT_THAT(done, ::testing::ElementsAre(3));
}

TEST(TaskQueue, DoneNeverRunsAfterCancelEvenWhenAlreadyPosted) {
  Mailbox mailbox;
  TaskQueue queue(2, mailbox.Dispatcher());
  bool tile_done = false, other_done = false;
  queue.Submit(
      "tile/1", 0, [](const std::stop_token&) {}, [&] { tile_done = true; });
  queue.Submit(
      "mask", 0, [](const std::stop_token&) {}, [&] { other_done = true; });
  test::WaitIdle(&queue);
  queue.Cancel("tile/");
  mailbox.RunAll();
  EXPECT_FALSE(tile_done);
  EXPECT_TRUE(other_done);
}

TEST(TaskQueue, DestructionCancelsAndSilencesWhatWasPosted) {
  Mailbox mailbox;
  bool done = false;
  std::atomic<bool> saw_cancel{false};
  {
    TaskQueue queue(2, mailbox.Dispatcher());
    queue.Submit(
        "posted", 0, [](const std::stop_token&) {}, [&] { done = true; });
    test::WaitIdle(&queue);
    Gate gate;
    gate.Open();
    queue.Submit(
        "running", 0,
        [&](const std::stop_token& stop) {
          gate.Pass();
          while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          saw_cancel = true;
        },
        [&] { done = true; });
    gate.WaitForArrival();
  }
  mailbox.RunAll();
  EXPECT_TRUE(saw_cancel);
  EXPECT_FALSE(done);
}

// Calls a function when the last copy of it goes.
class AtTheEnd {
 public:
  explicit AtTheEnd(std::function<void()> function) : end_(nullptr, [function](void*) { function(); }) {}

 private:
  std::shared_ptr<void> end_;
};

// Whether another thread gets an answer from the queue.
bool Answers(TaskQueue* queue, std::future<void>* answer) {
  *answer = std::async(std::launch::async, [queue] { queue->Cancel("nothing of that name"); });
  return answer->wait_for(std::chrono::seconds(2)) == std::future_status::ready;
}

TEST(TaskQueue, WhatACancelledTaskHeldIsFreedWithoutTheLock) {
  Mailbox mailbox;
  std::future<void> first, second;
  bool waiting_task = false, running_task = false;
  {
    TaskQueue queue(1, mailbox.Dispatcher());
    Gate gate;
    const auto submit = [&](const char* tag, AtTheEnd held) {
      queue.Submit(
          tag, 0, [&gate](const std::stop_token&) { gate.Pass(); }, [held] {});
    };
    submit("running", AtTheEnd([&] { running_task = Answers(&queue, &first); }));
    gate.WaitForArrival();
    submit("waiting", AtTheEnd([&] { waiting_task = Answers(&queue, &second); }));
    queue.Cancel("");
    gate.Open();
  }
  EXPECT_TRUE(waiting_task);
  EXPECT_TRUE(running_task);
}

TEST(TaskQueue, WhatDoneHeldIsFreedWhereItRan) {
  Gate posted, ran;
  std::function<void()> function;
  std::thread::id freed_on;
  {
    TaskQueue queue(1, [&](std::function<void()> given) {
      function = std::move(given);
      posted.Open();
      ran.Pass();  // the owner is faster than the worker
    });
    queue.Submit(
        "tag", 0, [](const std::stop_token&) {}, [held = AtTheEnd([&] { freed_on = std::this_thread::get_id(); })] {});
    posted.Pass();
    function();
    function = nullptr;
    ran.Open();
  }
  EXPECT_EQ(freed_on, std::this_thread::get_id());
}

// A task that measures begins when what was asked for before it is done, and does not wait for ever.
TEST(TaskQueue, AMeasuringTaskWaitsUntilItIsAlone) {
  Mailbox mailbox;
  std::promise<void> ended;  // (a task that waits for rest would be another that runs)
  TaskQueue queue(3, mailbox.Dispatcher());
  std::atomic<bool> tile_done = false, seen = false, gave_up_early = false;
  queue.Submit(
      "tile", 0,
      [&](const std::stop_token&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(120));
        tile_done = true;
      },
      nullptr);
  queue.Submit(
      "run", 1,
      [&](const std::stop_token& stop) {
        queue.WaitUntilAlone(stop, std::chrono::milliseconds(1));
        gave_up_early = !tile_done;
        queue.WaitUntilAlone(stop, std::chrono::seconds(60));
        seen = tile_done.load();
        ended.set_value();
      },
      nullptr);
  ended.get_future().wait();
  EXPECT_TRUE(gave_up_early);
  EXPECT_TRUE(seen);
}

// A tuning, a figure and a quantisation may each take minutes; the map beside them does not wait for any of them.
TEST(TaskQueue, WhatNobodyWaitsForLeavesAWorkerToTheOthers) {
  Mailbox mailbox;
  std::array<Gate, 3> gates;
  std::atomic<int> ended = 0;
  TaskQueue queue(3, mailbox.Dispatcher());
  for (size_t i = 0; i < gates.size(); ++i) {
    queue.Submit(
        "long " + std::to_string(i), -500,
        [&, i](const std::stop_token&) {
          gates[i].Pass();
          ++ended;
        },
        nullptr);
  }
  gates[0].WaitForArrival();
  gates[1].WaitForArrival();
  for (const int32_t priority : {0, 1000}) {
    const auto drawn = std::make_shared<std::promise<void>>();
    queue.Submit(
        "tile", priority, [drawn](const std::stop_token&) { drawn->set_value(); }, nullptr);
    EXPECT_EQ(drawn->get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready) << priority;
  }
  EXPECT_EQ(ended, 0);
  // The third follows when one of the two is over.
  gates[0].Open();
  gates[2].WaitForArrival();
  gates[1].Open();
  gates[2].Open();
  test::WaitIdle(&queue);
  EXPECT_EQ(ended, 3);
}

TEST(TaskQueue, ManyThreadsSubmitAndCancelAtOnce) {
  Mailbox mailbox;
  std::atomic<int> ran{0};
  {
    TaskQueue queue(4, mailbox.Dispatcher());
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 200; ++i) {
          queue.Submit(
              "tag/" + std::to_string((t * 7 + i) % 13), i % 3, [&](const std::stop_token&) { ++ran; }, [] {});
          if (i % 10 == 0) queue.Cancel("tag/1");
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    test::WaitIdle(&queue);
  }
  mailbox.RunAll();
  EXPECT_GT(ran, 0);
  EXPECT_LE(ran, 800);
}

}  // namespace
}  // namespace headscope::analysis
