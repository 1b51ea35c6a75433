// SPDX-License-Identifier: Apache-2.0
// What other threads leave to the window's: everything arrives, each thread's in its order, and runs where it should.
#include <gtest/gtest.h>

#include <QCoreApplication>
#include <QThread>
#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "ui_thread.h"

namespace headscope::ui {
namespace {

class UiThreadTest : public ::testing::Test {
 protected:
  int num_arguments_ = 1;
  char name_[2] = "t";
  char* arguments_[2] = {name_, nullptr};
  QCoreApplication application_{num_arguments_, arguments_};
};

TEST_F(UiThreadTest, RunsWhatOtherThreadsPostInTheirOrder) {
  constexpr int kThreads = 4, kPosts = 500;
  UiThread ui_thread;
  std::array<std::vector<int>, kThreads> seen;
  int elsewhere = 0, num_seen = 0;
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kPosts; ++i) {
        // Not atomic: the hand-over alone makes it safe to read.
        ui_thread.Post([&, thread, value = std::make_shared<int>(i)] {
          if (QThread::currentThread() != ui_thread.thread()) ++elsewhere;
          seen[thread].push_back(*value);
          ++num_seen;
        });
      }
    });
  }
  while (num_seen < kThreads * kPosts) QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(elsewhere, 0);
  for (const std::vector<int>& values : seen) {
    for (int i = 0; i < kPosts; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], i);
  }
}

TEST_F(UiThreadTest, AFunctionMayPostAnotherAndRunTheEventLoop) {
  UiThread ui_thread;
  std::vector<int> order;
  ui_thread.Post([&] {
    ui_thread.Post([&] { order.push_back(1); });
    QCoreApplication::processEvents();  // as a dialog does
    order.push_back(2);
  });
  QCoreApplication::processEvents();
  EXPECT_EQ(order, std::vector<int>({1, 2}));
}

TEST_F(UiThreadTest, WhatStillWaitsAtTheEndIsDroppedUnrun) {
  bool ran = false;
  const auto held = std::make_shared<int>(0);
  {
    UiThread ui_thread;
    ui_thread.Post([&ran, held] { ran = true; });
    EXPECT_EQ(held.use_count(), 2);
  }
  QCoreApplication::processEvents();
  EXPECT_FALSE(ran);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace headscope::ui
