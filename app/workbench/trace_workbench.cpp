// SPDX-License-Identifier: Apache-2.0
#include "workbench/trace_workbench.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <future>
#include <limits>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "analysis/compare.h"
#include "analysis/outside_mass.h"
#include "analysis/search.h"
#include "analysis/task_queue.h"
#include "analysis/tiles.h"
#include "analysis/types/printable.h"
#include "base/check_status.h"
#include "base/device.h"
#include "base/errors.h"
#include "capture_job.h"
#include "commands/torch_decode.h"
#include "eval/tasks.h"
#include "kernels/cuda_executor.h"
#include "lost_keys.h"
#include "mass_cache.h"
#include "model/model_session.h"
#include "opened_trace.h"
#include "repeat_report.h"
#include "run_slot.h"
#include "statistics_job.h"
#include "support/run_origin.h"
#include "table_export.h"
#include "thumbnail.h"
#include "tile_source.h"
#include "tuned_heads.h"

namespace headscope::app {
namespace {

// Three, because one may be busy with a measured run and one with a coarse pass while a mask follows a slider.
constexpr int32_t kWorkers = 3;
constexpr std::chrono::seconds kLongestWaitForQuiet(2);           // of a run, for the map's tiles
constexpr std::chrono::milliseconds kLongestWaitForScreen(1500);  // of a run, each time
// Of each stretch that a run measures, its repeats together: on two cores, what a desktop does beside them takes a few
// milliseconds now and then.
constexpr double kLeastMeasuredMs = 300;
constexpr int32_t kMaskPriority = 1'000'000;
constexpr int32_t kOpenPriority = 2'000'000;
constexpr int32_t kGiveBackPriority = -1'000'000;
constexpr int kMostLooks = 400;
// The mask on show and the one before it, whose tiles may still be asked for.
constexpr size_t kMasksKept = 4 * ui::kNumMapViews;
constexpr int32_t kThumbnailPriority = -1000, kTunePriority = -500;  // after whatever the window shows
constexpr char kMaskPrefix[] = "mask/", kThumbnailPrefix[] = "thumbnail/", kLostPrefix[] = "lost/";

std::string ViewName(ui::MapView view) {
  return view == ui::MapView::kFirst ? "first" : "second";
}

// Runs `work` for a value or a sentence: what a worker hands to the UI thread.
template <typename T>
struct Outcome {
  std::optional<T> value;
  std::string error;

  template <typename Work>
  void Set(Work&& work) {
    try {
      value = work();
    } catch (const std::exception& refused) {
      error = analysis::Printable(refused.what());  // it may quote a file
    }
  }
};

// A mask as the window shows it, and what its tiles are made from.
struct MadeMask {
  ui::LiveMask live;
  HeldMask held;
};

class TraceWorkbench : public ui::Workbench {
 public:
  TraceWorkbench(const WorkbenchPaths& paths, ui::PostFunction post)
      : paths_(paths),
        post_([post = std::move(post), alive = std::weak_ptr<bool>(alive_)](std::function<void()> function) {
          post([alive, function = std::move(function)] {
            if (!alive.expired()) function();
          });
        }),
        run_slot_(std::make_shared<RunSlot>()),
        capture_(post_),
        statistics_(post_),
        queue_(kWorkers, post_) {
    for (const ui::MapView view : {ui::MapView::kFirst, ui::MapView::kSecond}) {
      tiles_.push_back(std::make_unique<TileSource>(
          ViewName(view), &queue_, &memory(), post_,
          [this](const std::string& sentence) { ReportBackgroundError(analysis::Printable(sentence)); }));
    }
    for (const kernels::PrefillMethod* method : kernels::PrefillMethods()) methods_.push_back(method->spec());
    for (const kernels::DecodeMethod* method : kernels::DecodeMethods()) methods_.push_back(method->spec());
  }

  ~TraceWorkbench() override {
    alive_.reset();
    CancelRun();
    queue_.Cancel("");
    head_masses_.Clear();  // after their requests, so that none begins another pass
    capture_.Cancel();
  }

  const std::vector<kernels::MethodSpec>& methods() const override { return methods_; }
  std::vector<std::string> task_names() const override { return eval::TaskNames(); }
  std::string task_help(const std::string& name) const override { return eval::TaskHelp(name); }
  std::string default_model_dir() const override { return paths_.share_dir + "/reference_model"; }
  std::vector<Device> capture_devices() const override {
    std::vector<Device> devices = {kCpu};
    kernels::CudaDeviceInfo info;
    for (int32_t i = 0; kernels::QueryCudaDevice(i, &info).ok(); ++i) devices.push_back(CudaDevice(i));
    return devices;
  }

  void OpenTrace(const std::string& path, ui::Reply<ui::TraceSummary> done, ui::ErrorReply failed) override;
  void RequestStatistics(ui::Reply<analysis::HeadStatistics> one, std::function<void()> finished,
                         ui::Reply<ui::ProgressReport> progress) override;
  void CancelStatistics() override { statistics_.Cancel(); }

  void RequestTile(ui::MapView view, const analysis::TileKey& key, int32_t priority,
                   ui::Reply<analysis::TilePtr> done) override {
    TilesOf(view).Request(key, priority, std::move(done));
  }
  void RequestMaskTile(ui::MapView view, int64_t mask_id, const analysis::TileKey& key, int32_t priority,
                       ui::Reply<analysis::MaskTilePtr> done) override {
    const auto mask = masks_.find(mask_id);
    if (mask != masks_.end()) TilesOf(view).RequestMask(mask->second, key, priority, std::move(done));
  }
  void CancelTiles(ui::MapView view) override { TilesOf(view).Cancel(); }
  void RequestRow(analysis::HeadId head, int64_t row, ui::Reply<std::vector<float>> done) override;
  void RequestThumbnail(analysis::HeadId head, ui::Reply<ui::ThumbnailPtr> done) override;
  void CancelThumbnails() override { queue_.Cancel(kThumbnailPrefix); }
  ui::Exact ExactScore(analysis::HeadId head, int64_t row, int64_t column) override;

  void RequestMask(ui::MapView view, analysis::HeadId head, const std::string& method,
                   const kernels::ParameterValues& values, ui::Reply<ui::LiveMask> done,
                   ui::ErrorReply failed) override;
  void RequestLostKeys(analysis::HeadId head, int64_t mask_id, int64_t row,
                       ui::Reply<std::vector<ui::LostKey>> done) override;
  void MeetTarget(analysis::HeadId head, const std::string& method, const kernels::ParameterValues& values,
                  double target, ui::Reply<kernels::ParameterValues> done, ui::ErrorReply failed,
                  ui::Reply<ui::ProgressReport> progress) override;
  void CancelSearch() override {
    ++search_number_;
    queue_.Cancel("search");
  }
  void TuneHead(analysis::HeadId head, const std::string& method, const kernels::ParameterValues& values, double target,
                ui::Reply<ui::TunedSetting> done, ui::ErrorReply failed,
                ui::Reply<ui::ProgressReport> progress) override;
  void CancelTuning() override {
    ++tuning_number_;
    queue_.Cancel("tune");
  }
  std::string ExportTuning(const std::string& method, double target, const std::vector<ui::TunedSetting>& heads,
                           size_t num_heads_chosen, const std::string& path) override {
    Outcome<bool> outcome;
    outcome.Set([&] {
      if (!trace_) throw UsageError("There is no configuration to write: open a trace first.");
      return app::ExportTuning(trace_->reader, method, target, heads, num_heads_chosen, path), true;
    });
    return outcome.error;
  }
  void RunMethod(analysis::HeadId head, const std::string& method, const kernels::ParameterValues& values,
                 int32_t repeats, ui::Reply<analysis::MethodResult> done, ui::ErrorReply failed,
                 ui::Reply<ui::ProgressReport> progress) override;
  void CancelRun() override {
    ++run_number_;
    queue_.Cancel("run");
  }

  void DescribeModel(const std::string& model_dir, ui::Reply<ui::ModelDescription> done,
                     ui::ErrorReply failed) override;
  void Capture(const ui::CaptureSettings& settings, ui::Reply<ui::CapturedTrace> done, ui::ErrorReply failed,
               ui::Reply<ui::ProgressReport> progress) override {
    capture_.Start(settings, std::move(done), std::move(failed), std::move(progress));
  }
  void CancelCapture() override { capture_.Cancel(); }

  std::string ExportRuns(const std::vector<analysis::MethodResult>& runs, const std::string& path) override {
    Outcome<bool> outcome;
    outcome.Set([&] { return app::ExportRuns(runs, path), true; });
    return outcome.error;
  }
  std::string ExportStatistics(const std::vector<analysis::HeadStatistics>& statistics,
                               const std::string& path) override {
    Outcome<bool> outcome;
    outcome.Set([&] { return app::ExportStatistics(statistics, path), true; });
    return outcome.error;
  }
  std::string ReadRuns(const std::string& path, std::vector<analysis::MethodResult>* runs) override {
    Outcome<bool> outcome;
    outcome.Set([&] { return *runs = app::ReadRuns(path), true; });
    return outcome.error;
  }
  std::string RunAsJson(const analysis::MethodResult& run) override { return app::RunAsJson(run); }
  std::optional<analysis::MethodResult> RunFromJson(const std::string& json) override { return app::RunFromJson(json); }

 private:
  TileSource& TilesOf(ui::MapView view) { return *tiles_[static_cast<size_t>(view)]; }
  // Frees what was held of a trace that is no longer on show, and its memory to the system, in the background.
  void GiveBack(std::shared_ptr<OpenedTrace> closed);
  void CountStatistics(const analysis::HeadStatistics& statistics);
  // Called by a worker, before it measures: everything that was posted so far is on the screen, or it took too long.
  void WaitUntilDrawn(const std::stop_token& stop);
  MadeMask MaskOfPrefill(OpenedTrace& trace, analysis::HeadId head, const kernels::PrefillMethod& method,
                         const kernels::ParameterValues& values, const std::stop_token& stop);
  static MadeMask MaskOfDecode(OpenedTrace& trace, analysis::HeadId head, const kernels::DecodeMethod& method,
                               const kernels::ParameterValues& values, bool alone, const std::stop_token& stop);

  // Submits work that makes a T (or throws), and hands it to one of the two replies.
  template <typename T, typename Work>
  void Submit(const std::string& tag, int32_t priority, Work work, ui::Reply<T> done, ui::ErrorReply failed) {
    auto outcome = std::make_shared<Outcome<T>>();
    queue_.Submit(
        tag, priority, [outcome, work](const std::stop_token& stop) { outcome->Set([&] { return work(stop); }); },
        [outcome, done = std::move(done), failed = std::move(failed)] {
          if (outcome->value) {
            done(std::move(*outcome->value));
          } else {
            failed(outcome->error);
          }
        });
  }

  const WorkbenchPaths paths_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  const std::function<void(std::function<void()>)> post_;
  std::vector<kernels::MethodSpec> methods_;
  std::shared_ptr<OpenedTrace> trace_;
  std::map<int64_t, HeldMask> masks_;
  std::map<analysis::HeadId, int64_t> statistics_bytes_;
  int64_t next_mask_id_ = 1;
  int64_t search_number_ = 0;  // of the newest search; progress of an older one is dropped
  int64_t tuning_number_ = 0;  // the same of TuneHead's
  int64_t run_number_ = 0;     // the same of runs
  std::shared_ptr<RunSlot> run_slot_;
  MassCache head_masses_{shared_memory()};
  CaptureJob capture_;
  StatisticsJob statistics_;
  analysis::TaskQueue queue_;
  std::vector<std::unique_ptr<TileSource>> tiles_;  // of every view
};

void TraceWorkbench::OpenTrace(const std::string& path, ui::Reply<ui::TraceSummary> done, ui::ErrorReply failed) {
  Submit<std::shared_ptr<OpenedTrace>>(
      "open", kOpenPriority,
      [path, memory = shared_memory()](const std::stop_token&) { return std::make_shared<OpenedTrace>(path, memory); },
      [this, done = std::move(done)](const std::shared_ptr<OpenedTrace>& trace) {
        statistics_.Cancel();
        for (const char* prefix : {kMaskPrefix, kThumbnailPrefix, kLostPrefix, "row"}) queue_.Cancel(prefix);
        CancelSearch();
        CancelTuning();
        CancelRun();
        masks_.clear();
        head_masses_.Clear();
        std::shared_ptr<OpenedTrace> before = std::exchange(trace_, trace);
        for (const auto& tiles : tiles_) tiles->SetTrace(trace);
        statistics_bytes_.clear();
        memory().SetFixed(&statistics_bytes_, 0);
        done(trace->summary);  // the window forgets the trace before, too
        GiveBack(std::move(before));
      },
      std::move(failed));
}

void TraceWorkbench::GiveBack(std::shared_ptr<OpenedTrace> closed) {
  queue_.Submit(
      "give back", kGiveBackPriority,
      [slot = run_slot_, closed = std::move(closed)](const std::stop_token& stop) mutable {
        slot->Forget();
        // Work on it that was cancelled ends within a few milliseconds, and may be the last to let go of a part.
        constexpr std::chrono::milliseconds kLookAgain(5);
        for (int look = 0; closed.use_count() > 1 && look < kMostLooks && !stop.stop_requested(); ++look)
          std::this_thread::sleep_for(kLookAgain);
        closed.reset();
#ifdef __GLIBC__
        malloc_trim(0);  // of a quarter million small blocks the C library would keep the pages
#endif
      },
      [] {});
}

void TraceWorkbench::RequestStatistics(ui::Reply<analysis::HeadStatistics> one, std::function<void()> finished,
                                       ui::Reply<ui::ProgressReport> progress) {
  if (!trace_) return;
  const auto counted = [this, one = std::move(one)](const analysis::HeadStatistics& statistics) {
    CountStatistics(statistics);
    one(statistics);
  };
  statistics_.Start(
      trace_, paths_.cache_dir,
      {.one = counted,
       .finished = std::move(finished),
       .progress = std::move(progress),
       .failed = [this](const std::string& sentence) { ReportBackgroundError(analysis::Printable(sentence)); }});
}

void TraceWorkbench::CountStatistics(const analysis::HeadStatistics& statistics) {
  constexpr int64_t kCopies = 2;  // the job's, for its file, and the window's
  const size_t bytes = sizeof(statistics) + statistics.class_reason.capacity() +
                       (statistics.column_profile.size() + statistics.diagonal_profile.size()) * sizeof(float);
  statistics_bytes_[statistics.id] = kCopies * static_cast<int64_t>(bytes);
  int64_t all = 0;
  for (const auto& [head, of_head] : statistics_bytes_) all += of_head;
  memory().SetFixed(&statistics_bytes_, all);
}

ui::Exact TraceWorkbench::ExactScore(analysis::HeadId head, int64_t row, int64_t column) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  const analysis::HeadTensorsPtr tensors = trace_ ? trace_->heads.TryGet(head) : nullptr;
  if (!tensors || row < 0 || row >= tensors->num_rows || column < 0 || column >= tensors->num_tokens)
    return {.probability = kUnknown, .score = kUnknown};
  const double score = analysis::Score(*tensors, row, column);
  const int32_t position = tensors->row_positions[static_cast<size_t>(row)];
  return {analysis::Probability(*tensors, row, column), score, column <= position,
          column >= tensors->AttendedColumns(row).begin};
}

void TraceWorkbench::RequestMask(ui::MapView view, analysis::HeadId head, const std::string& method,
                                 const kernels::ParameterValues& values, ui::Reply<ui::LiveMask> done,
                                 ui::ErrorReply failed) {
  if (!trace_) return;
  Submit<MadeMask>(
      kMaskPrefix + ViewName(view), kMaskPriority,
      [this, trace = trace_, head, method, values, alone = measures_alone()](const std::stop_token& stop) {
        if (const kernels::PrefillMethod* prefill = kernels::FindPrefillMethod(method))
          return MaskOfPrefill(*trace, head, *prefill, values, stop);
        if (const kernels::DecodeMethod* decode = kernels::FindDecodeMethod(method))
          return MaskOfDecode(*trace, head, *decode, values, alone, stop);
        throw UsageError("Method " + method + " is not registered: choose one of the panel's list.");
      },
      [this, done = std::move(done)](MadeMask made) {
        made.live.mask_id = next_mask_id_++;
        made.live.distribution = analysis::DistributeMass(made.live.kept_mass);
        if (made.live.steps) made.live.distribution.worst_row += made.live.steps->first_row;
        masks_[made.live.mask_id] = std::move(made.held);
        if (masks_.size() > kMasksKept) masks_.erase(masks_.begin());
        done(std::move(made.live));
      },
      std::move(failed));
}

void TraceWorkbench::RequestLostKeys(analysis::HeadId head, int64_t mask_id, int64_t row,
                                     ui::Reply<std::vector<ui::LostKey>> done) {
  const auto mask = masks_.find(mask_id);
  if (!trace_ || mask == masks_.end()) return;
  Submit<std::vector<ui::LostKey>>(
      kLostPrefix + std::to_string(row), kMaskPriority,
      [trace = trace_, head, held = mask->second, row](const std::stop_token&) {
        return LostKeys(*trace->heads.Get(head), held, row, kMostLostKeys);
      },
      std::move(done), [this](const std::string& sentence) { ReportBackgroundError(sentence); });
}

MadeMask TraceWorkbench::MaskOfPrefill(OpenedTrace& trace, analysis::HeadId head, const kernels::PrefillMethod& method,
                                       const kernels::ParameterValues& values, const std::stop_token& stop) {
  const analysis::HeadTensorsPtr shown = trace.heads.Get(head);
  const MassCache::MassPtr mass = head_masses_.Get(shown, stop);
  if (!mass) throw CancelledError("The mask was not made because another head was opened.");
  analysis::MaskPreview preview;
  const kernels::Status status = analysis::PreviewMask(*mass, method, values, 0, stop, &preview);
  CheckStatus(status);
  MadeMask made;
  if (const auto inside = trace.MassInTrace(*shown, stop))
    made.live.outside_mass = analysis::MeanOutsideMass(*shown, *inside, 0, shown->num_rows);
  made.live.summary = std::move(preview.summary);
  made.live.kept_mass = std::move(preview.kept_mass);
  made.held = {preview.index, preview.window, nullptr};
  return made;
}

MadeMask TraceWorkbench::MaskOfDecode(OpenedTrace& trace, analysis::HeadId head, const kernels::DecodeMethod& method,
                                      const kernels::ParameterValues& values, bool alone, const std::stop_token& stop) {
  const analysis::HeadTensorsPtr shown = trace.heads.Get(head);
  // As a run measures it: in its layer, where the query heads of a KV head may share a choice.
  analysis::MeasuredHeadsPtr measured = alone ? analysis::AloneHead(shown) : trace.GroupOf(head);
  analysis::DecodePreview preview;
  const kernels::Status status =
      analysis::PreviewDecode(*measured, head, method, values, trace.DecodeRows(), 0, stop, &preview);
  CheckStatus(status);
  MadeMask made;
  made.live.chosen_per = preview.chosen_per;
  if (const auto inside = trace.MassInTrace(*shown, stop))
    made.live.outside_mass =
        analysis::MeanOutsideMass(*shown, *inside, preview.steps->first_row, preview.steps->end_row());
  made.live.summary = std::move(preview.summary);
  made.live.kept_mass = std::move(preview.kept_mass);
  made.live.steps = preview.steps;
  made.held = {nullptr, 0, preview.steps};
  return made;
}

void TraceWorkbench::MeetTarget(analysis::HeadId head, const std::string& method,
                                const kernels::ParameterValues& values, double target,
                                ui::Reply<kernels::ParameterValues> done, ui::ErrorReply failed,
                                ui::Reply<ui::ProgressReport> progress) {
  if (!trace_) return;
  CancelSearch();
  const int64_t number = search_number_;
  Submit<kernels::ParameterValues>(
      "search", kMaskPriority,
      [this, number, trace = trace_, head, method, values, target, progress](const std::stop_token& stop) {
        const kernels::PrefillMethod* prefill = kernels::FindPrefillMethod(method);
        if (prefill == nullptr)
          throw UsageError("Method " + method + " is not a prefill method: choose one of the panel's list.");
        const MassCache::MassPtr mass = head_masses_.Get(trace->heads.Get(head), stop);
        if (!mass) throw CancelledError("The search was stopped because another head was opened.");
        analysis::BudgetSearchOptions options;
        options.stop = stop;
        options.progress = [&](double share) {
          ui::ProgressReport report;
          report.stage = "Searching " + method;
          report.fraction = share;
          post_([this, number, progress, report] {
            if (number == search_number_) progress(report);
          });
        };
        const analysis::BudgetTarget wanted{target, analysis::MassStatistic::kFifthPercentile};
        analysis::BudgetSearchResult result;
        const kernels::Status status = analysis::SearchBudget(*mass, *prefill, values, wanted, options, &result);
        CheckStatus(status);
        if (!result.reached) throw FailedError(analysis::UnreachedSentence(prefill->spec(), wanted, result));
        return result.values;
      },
      std::move(done), std::move(failed));
}

void TraceWorkbench::TuneHead(analysis::HeadId head, const std::string& method, const kernels::ParameterValues& values,
                              double target, ui::Reply<ui::TunedSetting> done, ui::ErrorReply failed,
                              ui::Reply<ui::ProgressReport> progress) {
  if (!trace_) return;
  CancelTuning();
  const int64_t number = tuning_number_;
  Submit<ui::TunedSetting>(
      "tune", kTunePriority,
      [this, number, trace = trace_, head, method, values, target, progress](const std::stop_token& stop) {
        const auto report = [&](double share) {
          ui::ProgressReport at;
          at.stage = "Tuning " + method;
          at.fraction = share;
          post_([this, number, progress, at] {
            if (number == tuning_number_) progress(at);
          });
        };
        return app::TuneHead(*trace, head, method, values, target, report, stop);
      },
      std::move(done), std::move(failed));
}

void TraceWorkbench::RequestRow(analysis::HeadId head, int64_t row, ui::Reply<std::vector<float>> done) {
  if (!trace_) return;
  Submit<std::vector<float>>(
      "row", kMaskPriority,
      [trace = trace_, head, row](const std::stop_token& stop) {
        return RowProbabilities(*trace->heads.Get(head), row, stop);
      },
      std::move(done), [this](const std::string& sentence) { ReportBackgroundError(sentence); });
}

void TraceWorkbench::RequestThumbnail(analysis::HeadId head, ui::Reply<ui::ThumbnailPtr> done) {
  if (!trace_) return;
  Submit<ui::ThumbnailPtr>(
      kThumbnailPrefix + std::to_string(head.layer) + ":" + std::to_string(head.head), kThumbnailPriority,
      [trace = trace_, head](const std::stop_token& stop) { return MakeThumbnail(*trace->heads.Get(head), stop); },
      std::move(done), [this](const std::string& sentence) { ReportBackgroundError(sentence); });
}

void TraceWorkbench::RunMethod(analysis::HeadId head, const std::string& method, const kernels::ParameterValues& values,
                               int32_t repeats, ui::Reply<analysis::MethodResult> done, ui::ErrorReply failed,
                               ui::Reply<ui::ProgressReport> progress) {
  if (!trace_) return;
  CancelRun();
  ui::ProgressReport report;
  report.stage = "Measuring " + method;
  report.fraction = 0;  // known, for an unknown one is an animation: frames beside the run
  progress(report);
  // The statistics wait, and the run waits for the map and for the screen: a run's times must be its own.
  Submit<analysis::MethodResult>(
      "run", kMaskPriority,
      [this, number = run_number_, slot = run_slot_, trace = trace_, head, method, values, repeats,
       alone = measures_alone(), progress](const std::stop_token& stop) {
        struct PauseStatistics {
          StatisticsJob& job;
          explicit PauseStatistics(StatisticsJob& paused) : job(paused) { job.Pause(); }
          ~PauseStatistics() { job.Resume(); }
        } const paused(statistics_);
        // The tiles and masks that were asked for just before would make dense, which is measured first, look slow.
        queue_.WaitUntilAlone(stop, kLongestWaitForQuiet);
        WaitUntilDrawn(stop);
        ReportNowAndThen now_and_then([&](ui::ProgressReport shown) {
          post_([this, number, progress, shown = std::move(shown)] {
            if (number == run_number_) progress(shown);
          });
          WaitUntilDrawn(stop);
        });
        RunSettings settings;
        settings.layer_of = [&](const analysis::HeadTensorsPtr& shown) {
          const auto layer = std::make_shared<analysis::MeasuredHeads>(*analysis::LoadLayer(trace->reader, shown->id));
          layer->known = {shown};
          return layer;
        };
        settings.alone = alone;
        settings.repeats = repeats;
        settings.least_ms = kLeastMeasuredMs;
        settings.decode_rows = trace->DecodeRows();
        settings.other_dense = TorchDecode(0);
        settings.report = [&](const analysis::RepeatProgress& repeat) { now_and_then(method, repeat); };
        analysis::MethodResult result;
        const kernels::Status status = slot->Run(trace->heads.Get(head), settings, method, values, stop, &result);
        CheckStatus(status);
        result.origin = OriginOf(trace->reader);
        return result;
      },
      std::move(done), std::move(failed));
}

void TraceWorkbench::WaitUntilDrawn(const std::stop_token& stop) {
  // Held by both sides: the worker may have given up when the window answers.
  const auto drawn = std::make_shared<std::promise<void>>();
  const std::future<void> answer = drawn->get_future();
  post_([this, drawn] { CallWhenDrawn([drawn] { drawn->set_value(); }); });
  const auto end = std::chrono::steady_clock::now() + kLongestWaitForScreen;
  constexpr std::chrono::milliseconds kLookAtFlag(2);
  while (!stop.stop_requested() && std::chrono::steady_clock::now() < end) {
    if (answer.wait_for(kLookAtFlag) == std::future_status::ready) return;
  }
}

void TraceWorkbench::DescribeModel(const std::string& model_dir, ui::Reply<ui::ModelDescription> done,
                                   ui::ErrorReply failed) {
  Submit<ui::ModelDescription>(
      "model", kOpenPriority,
      [model_dir](const std::stop_token&) {
        const model::CheckpointSummary summary = model::ReadCheckpointSummary(model_dir, /*with_hash=*/false);
        ui::ModelDescription description;
        description.model_dir = model_dir;
        description.model_type = summary.model_type;
        description.dtype = summary.dtype;
        description.num_parameters = summary.num_parameters;
        description.max_positions = summary.max_positions;
        description.num_layers = summary.num_layers;
        description.num_qo_heads = summary.num_qo_heads;
        description.num_kv_heads = summary.num_kv_heads;
        description.head_dim = summary.head_dim;
        return description;
      },
      std::move(done), std::move(failed));
}

}  // namespace

std::unique_ptr<ui::Workbench> MakeTraceWorkbench(const WorkbenchPaths& paths, ui::PostFunction post) {
  return std::make_unique<TraceWorkbench>(paths, std::move(post));
}

std::string DefaultResultsDir() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  std::filesystem::path cache = variable("XDG_CACHE_HOME");
  if (cache.empty() && !variable("HOME").empty()) cache = std::filesystem::path(variable("HOME")) / ".cache";
  return cache.empty() ? std::string() : (cache / "headscope" / "results").string();
}

}  // namespace headscope::app
