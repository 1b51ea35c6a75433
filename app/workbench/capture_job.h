// SPDX-License-Identifier: Apache-2.0
// One capture at a time, on its own thread: it may take minutes and must not hold up tiles.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <stop_token>
#include <thread>

#include "capture/capture.h"
#include "ui/workbench.h"

namespace headscope::app {

// What the settings of the dialog ask for. Throws UsageError.
capture::CaptureRequest RequestOf(const ui::CaptureSettings& settings);

// "layers 0-21 on cuda:0, 22-31 on cpu; cuda:1 is not used: ..", or nothing where one device was named.
std::string PlacementOf(const model::Placement& placement);

class CaptureJob {
 public:
  using Post = std::function<void(std::function<void()>)>;
  explicit CaptureJob(Post post) : post_(std::move(post)) {}
  ~CaptureJob();  // cancels and joins: what was recorded stays a valid, shorter trace

  // Callbacks come on the UI thread. A second start while one runs fails.
  void Start(const ui::CaptureSettings& settings, ui::Reply<ui::CapturedTrace> done, ui::ErrorReply failed,
             ui::Reply<ui::ProgressReport> progress);
  void Cancel() { stop_.request_stop(); }

 private:
  const Post post_;
  std::stop_source stop_;  // of the capture under way
  std::shared_ptr<std::atomic<bool>> running_ = std::make_shared<std::atomic<bool>>(false);
  std::thread thread_;
};

}  // namespace headscope::app
