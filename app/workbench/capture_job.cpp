// SPDX-License-Identifier: Apache-2.0
#include "capture_job.h"

#include <exception>
#include <system_error>

#include "capture/capture.h"
#include "choices/head_selection.h"
#include "data/trace_files.h"
#include "support/messages.h"
#include "support/paths.h"

namespace headscope::app {
namespace {

ui::ProgressReport Report(const Progress& progress) {
  ui::ProgressReport report;
  report.stage = progress.stage;
  report.fraction = progress.total > 0 ? static_cast<double>(progress.done) / static_cast<double>(progress.total) : -1;
  report.rate = progress.rate;
  report.unit = progress.unit;
  report.remaining_s = progress.remaining_s;
  return report;
}

}  // namespace

capture::CaptureRequest RequestOf(const ui::CaptureSettings& settings) {
  capture::CaptureRequest request;
  request.model_dir = settings.model_dir;
  if (!settings.task.empty()) {
    request.task = settings.task;
    request.task_length = settings.task_length;
    request.prose_path = ProsePath();
  } else if (!settings.prompt_ids.empty()) {
    request.tokens = settings.prompt_ids;
  } else if (!settings.prompt_file.empty()) {
    request.prompt_file = settings.prompt_file;
  } else {
    request.text = settings.prompt_text;
  }
  request.output_path = settings.output_path;
  request.overwrite = settings.overwrite;
  static_assert(ui::kMostTraceFiles == data::kMaxTraceFiles);
  request.num_files = settings.num_files;
  request.layers = ParseNumberList(settings.layers, "layers");
  request.heads = ParseNumberList(settings.heads, "heads");
  request.kv_heads = ParseNumberList(settings.kv_heads, "KV heads");
  request.rows = settings.rows;
  request.decode_tokens = settings.decode_tokens;
  for (const ui::Recordable& what : settings.record) {
    for (const model::CapturePointInfo& info : model::kCapturePoints) {
      if (info.name == what.name) request.record.push_back(info.point);
    }
  }
  request.dtype = settings.dtype;
  request.device = settings.device;
  request.place_by_memory = settings.place_by_memory;
  return request;
}

std::string PlacementOf(const model::Placement& placement) {
  if (placement.layers.empty()) return "";
  const std::string text = model::PlacementText(placement.layers);
  return placement.passed_over.empty() ? text : text + "; " + placement.passed_over;
}

CaptureJob::~CaptureJob() {
  Cancel();
  if (thread_.joinable()) thread_.join();
}

void CaptureJob::Start(const ui::CaptureSettings& settings, ui::Reply<ui::CapturedTrace> done, ui::ErrorReply failed,
                       ui::Reply<ui::ProgressReport> progress) {
  if (*running_) {
    post_([failed] { failed("A capture is running: wait for it to finish or cancel it first."); });
    return;
  }
  if (thread_.joinable()) thread_.join();
  stop_ = {};
  *running_ = true;
  auto work = [this, settings, stop = stop_.get_token(), done = std::move(done), failed,
               progress = std::move(progress)] {
    const auto fail = [&](const std::string& message) {
      post_([running = running_, failed, message] {
        *running = false;
        failed(message);
      });
    };
    try {
      capture::CaptureRequest request = RequestOf(settings);
      std::string readable;  // the trace, once it can be read
      request.readable = [&](const std::string& path, int64_t) { readable = path; };
      const capture::CaptureResult result = capture::Capture(
          request,
          [&](const Progress& now) {
            ui::ProgressReport report = Report(now);
            report.readable_path = readable;
            post_([progress, report = std::move(report)] { progress(report); });
          },
          stop);
      if (result.interrupted && result.num_tokens == 0) {
        fail("The capture was cancelled before a token was recorded.");
        return;
      }
      const ui::CapturedTrace trace{
          result.path, result.num_tokens, result.interrupted, result.why_no_texts, PlacementOf(result.placement),
          result.bytes};
      post_([running = running_, done, trace] {
        *running = false;
        done(trace);
      });
    } catch (const std::exception& refused) {
      fail(refused.what());
    }
  };
  try {
    thread_ = std::thread(std::move(work));
  } catch (const std::system_error&) {
    *running_ = false;
    post_([failed] { failed(kOutOfThreads); });
  }
}

}  // namespace headscope::app
