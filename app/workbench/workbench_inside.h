// SPDX-License-Identifier: Apache-2.0
// The inside of the workbench behind the window: what it holds, and what each call asks of whom.
#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <future>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "analysis/compare.h"
#include "analysis/search.h"
#include "analysis/task_queue.h"
#include "analysis/thumbnail.h"
#include "analysis/tiles.h"
#include "analysis/types/printable.h"
#include "base/check_status.h"
#include "base/device.h"
#include "base/errors.h"
#include "capture_estimator.h"
#include "capture_job.h"
#include "choices/file_method.h"
#include "choices/held_out_rows.h"
#include "choices/length_range.h"
#include "choices/torch_decode.h"
#include "data/trace_files.h"
#include "eval/tasks.h"
#include "exact_score.h"
#include "example_traces.h"
#include "figure_maker.h"
#include "free_pages.h"
#include "held_masks.h"
#include "kernels/cuda_executor.h"
#include "known_heads.h"
#include "live_heads.h"
#include "live_turns.h"
#include "lost_keys.h"
#include "made_mask.h"
#include "map_export.h"
#include "mass_cache.h"
#include "measured_sweep.h"
#include "opened_trace.h"
#include "outcome.h"
#include "quantised_head.h"
#include "repeat_report.h"
#include "report_export.h"
#include "run_slot.h"
#include "support/paths.h"
#include "support/run_origin.h"
#include "table_export.h"
#include "tile_source.h"
#include "tuned_heads.h"
#include "workbench/trace_workbench.h"

namespace headscope::app {

// Three, because one may be busy with a measured run and one with a coarse pass while a mask follows a slider.
inline constexpr int32_t kWorkers = 3;
inline constexpr std::chrono::seconds kLongestWaitForQuiet(2);           // of a run, for the map's tiles
inline constexpr std::chrono::milliseconds kLongestWaitForScreen(1500);  // of a run, each time
inline constexpr int32_t kMaskPriority = 1'000'000;
inline constexpr int32_t kOpenPriority = 2'000'000;
inline constexpr int32_t kGiveBackPriority = -1'000'000;
inline constexpr int kMostLooks = 4000;                                     // of a few milliseconds
inline constexpr int32_t kThumbnailPriority = -1000, kTunePriority = -500;  // after whatever the window shows
inline constexpr int32_t kOverlapPriority = 500'000;                        // after the masks that it counts
inline constexpr int32_t kLivePriority = 100;  // after the map's tiles, before what nobody waits for
inline constexpr char kMaskPrefix[] = "mask/", kLivePrefix[] = "live/", kThumbnailPrefix[] = "thumbnail/",
                      kLostPrefix[] = "lost/", kRowTag[] = "row", kOverlapTag[] = "overlap", kExportTag[] = "export",
                      kFigureTag[] = "figure", kQuantiseTag[] = "quantise";
// What the window shows of one trace and nobody waits for behind the next one. Other work of a trace has a call that
// cancels it.
inline constexpr std::array kShownOfTrace = {kMaskPrefix, kLivePrefix, kThumbnailPrefix,
                                             kLostPrefix, kOverlapTag, kRowTag};

inline std::shared_ptr<std::vector<kernels::MethodSpec>> RegisteredMethods() {
  auto methods = std::make_shared<std::vector<kernels::MethodSpec>>();
  for (const kernels::PrefillMethod* method : kernels::PrefillMethods()) methods->push_back(method->spec());
  for (const kernels::DecodeMethod* method : kernels::DecodeMethods()) methods->push_back(method->spec());
  return methods;
}

// What the workbenches of several open traces share.
struct SharedAmongTraces {
  std::shared_ptr<ui::MemoryBudget> memory = std::make_shared<ui::MemoryBudget>();
  std::shared_ptr<MeasuringGate> gate = std::make_shared<MeasuringGate>();
  std::shared_ptr<PageReturner> pages = ReturnWhatLeaves(memory.get(), gate);
  std::shared_ptr<LiveTurns> live_turns;  // never null: made with what posts to the window's thread
  // The registry, and what was made of files since. On the UI thread.
  std::shared_ptr<std::vector<kernels::MethodSpec>> methods = RegisteredMethods();
};

class TraceWorkbench : public ui::Workbench {
 public:
  TraceWorkbench(const WorkbenchOptions& options, ui::PostFunction post, const SharedAmongTraces& shared)
      : ui::Workbench(shared.memory),
        options_(options),
        shared_(shared),
        post_([post = std::move(post), alive = std::weak_ptr<bool>(alive_)](std::function<void()> function) {
          post([alive, function = std::move(function)] {
            if (!alive.expired()) function();
          });
        }),
        run_slot_(std::make_shared<RunSlot>()),
        capture_(post_),
        heads_(post_, shared.gate, &memory(), [this](const std::string& sentence) { ReportBackgroundError(sentence); }),
        queue_(kWorkers, post_) {
    for (const ui::MapView view : ui::kMapViews) {
      tiles_.push_back(std::make_unique<TileSource>(
          view, &queue_, &memory(), post_,
          [this](const std::string& sentence) { ReportBackgroundError(analysis::Printable(sentence)); }));
    }
  }

  ~TraceWorkbench() override {
    alive_.reset();
    CancelRun();
    CancelLiveRuns();
    queue_.Cancel("");
    live_heads_.Clear();
    head_masses_.Clear();  // after their requests, so that none begins another pass
    capture_.Cancel();
  }

  const std::vector<kernels::MethodSpec>& methods() const override { return *shared_.methods; }
  std::vector<ui::MethodFile> method_files() const override;
  void ReadMethodFile(const std::string& kind, const std::string& path, ui::Reply<std::string> done,
                      ui::ErrorReply failed) override;
  void ReadConfiguration(const std::string& path, ui::Reply<std::vector<ui::HeadSetting>> done,
                         ui::ErrorReply failed) override;
  std::vector<std::string> task_names() const override { return eval::TaskNames(); }
  std::string task_help(const std::string& name) const override { return eval::TaskHelp(name); }
  std::string default_model_dir() const override { return options_.share_dir + "/reference_model"; }
  std::vector<ui::Example> examples() const override {
    return ExampleTraces(ShippedTracePath(), default_model_dir(),
                         options_.cache_dir.empty() ? std::string() : options_.cache_dir + "/examples");
  }
  std::vector<Device> capture_devices() const override {
    std::vector<Device> devices = {kCpu};
    kernels::CudaDeviceInfo info;
    for (int32_t i = 0; kernels::QueryCudaDevice(i, &info).ok(); ++i) devices.push_back(CudaDevice(i));
    return devices;
  }

  std::vector<std::string> FilesNamedFor(const std::string& path) const override { return data::FilesNamedFor(path); }
  std::vector<std::string> FilesToOpen(const std::string& path) const override { return data::FilesToOpen(path); }
  void OpenTrace(const std::string& path, ui::Reply<ui::TraceSummary> done, ui::ErrorReply failed) override;
  void RequestStatistics(ui::Reply<analysis::HeadStatistics> one, std::function<void()> finished,
                         ui::Reply<ui::ProgressReport> progress) override {
    if (trace_) heads_.Request(trace_, options_.cache_dir, std::move(one), std::move(finished), std::move(progress));
  }
  void CancelStatistics(std::function<void()> ended) override { heads_.Cancel(std::move(ended)); }
  std::vector<ui::ClassThreshold> class_thresholds() const override { return HeadClasses::Thresholds(); }
  void SetClassThresholds(const std::vector<double>& values, std::vector<analysis::HeadStatistics>* heads) override {
    heads_.SetThresholds(values, heads);
  }
  std::string WriteClassThresholds(const std::vector<double>& values, const std::string& path) override {
    return OutcomeOf([&] { return HeadClasses::Write(values, path), true; }).Sentence();
  }
  std::string ReadClassThresholds(const std::string& path, std::vector<double>* values) override {
    return OutcomeOf([&] { return *values = HeadClasses::Read(path), true; }).Sentence();
  }
  std::vector<std::string> quantise_formats() const override { return QuantiseFormats(); }
  std::vector<std::string> quantise_scales() const override { return QuantiseScales(); }
  void Quantise(analysis::HeadId head, const ui::QuantiseSettings& settings,
                ui::Reply<std::vector<ui::QuantisedOutput>> done, ui::ErrorReply failed,
                ui::Reply<ui::ProgressReport> progress) override;
  void CancelQuantise() override {
    ++quantise_number_;
    queue_.Cancel(kQuantiseTag);
  }

  void RequestTile(ui::MapView view, const analysis::TileKey& key, int32_t priority,
                   ui::Reply<analysis::TilePtr> done) override {
    TilesOf(view).Request(key, priority, std::move(done));
  }
  void RequestMaskTile(ui::MapView view, int64_t mask_id, const analysis::TileKey& key, int32_t priority,
                       ui::Reply<analysis::MaskTilePtr> done) override {
    TilesOf(view).RequestMask(masks_.Find(mask_id), key, priority, std::move(done));
  }
  void RequestMaskPairTile(ui::MapView view, int64_t first_mask, int64_t second_mask, const analysis::TileKey& key,
                           int32_t priority, ui::Reply<analysis::MaskPairTilePtr> done) override {
    TilesOf(view).RequestMaskPair(masks_.Find(first_mask), masks_.Find(second_mask), key, priority, std::move(done));
  }
  void CancelTiles(ui::MapView view) override { TilesOf(view).Cancel(); }
  void RequestMaskOverlap(int64_t first_mask, int64_t second_mask, ui::Reply<analysis::MaskOverlap> done) override;
  void RequestRow(analysis::HeadId head, int64_t row, ui::Reply<std::vector<float>> done) override;
  void CloseView(ui::MapView view) override;
  void RequestThumbnail(analysis::HeadId head, ui::Reply<ui::ThumbnailPtr> done, ui::ErrorReply failed) override;
  void CancelThumbnails() override { queue_.Cancel(kThumbnailPrefix); }
  std::string ContentsOfFirst(int64_t tokens) const override {
    return trace_ ? trace_->ContentsOfFirst(tokens) : std::string();
  }
  ui::Exact ExactScore(analysis::HeadId head, int64_t row, int64_t column) override {
    return ExactScoreOf(trace_ ? trace_->heads.TryGet(head) : nullptr, row, column);
  }

  void RequestMask(ui::MapView view, analysis::HeadId head, const std::string& method,
                   const kernels::ParameterValues& values, ui::Reply<ui::LiveMask> done,
                   ui::ErrorReply failed) override;
  void ForgetMask(int64_t mask_id) override { masks_.Forget(mask_id); }
  void RequestLiveRun(ui::MapView view, analysis::HeadId head, const std::string& method,
                      const kernels::ParameterValues& values, int64_t mask_id, ui::Reply<analysis::LiveRun> done,
                      ui::ErrorReply failed) override;
  void CancelLiveRun(ui::MapView view) override {
    shared_.live_turns->Leave({this, view});
    queue_.Cancel(kLivePrefix + ViewName(view));
  }
  void ForgetDenseTimes(ui::MapView view) override { live_heads_.ForgetDenseTimes(view); }
  void RequestLostKeys(analysis::HeadId head, int64_t mask_id, int64_t row,
                       ui::Reply<std::vector<ui::LostKey>> done) override;
  void MeetTarget(analysis::HeadId head, const std::string& method, const kernels::ParameterValues& values,
                  double target, ui::Reply<kernels::ParameterValues> done, ui::Reply<ui::Refusal> failed,
                  ui::Reply<ui::ProgressReport> progress) override;
  std::vector<ui::TuneTargetChoice> tune_targets() const override { return TuneTargets(); }
  std::string WhyNotRanges(const std::vector<std::string>& ranges) const override {
    return OutcomeOf([&] { return RangesBetween(ranges, "Lengths"), true; }).Sentence();
  }
  std::string WhyNotCheckRows(const std::string& rows) const override {
    return OutcomeOf([&] { return HeldOutRows(rows, "Held-out rows").any(); }).Sentence();
  }
  std::vector<ui::TuningFile> tuning_files() const override { return TuningFiles(); }
  void CancelSearch() override {
    ++search_number_;
    queue_.Cancel("search");
  }
  void TuneHeads(const std::vector<analysis::HeadId>& heads, const ui::TuneSettings& settings,
                 const ui::HeadsReplies<ui::TunedSetting>& replies) override;
  void CancelTuning() override {
    ++tuning_number_;
    queue_.Cancel("tune");
  }
  std::string ExportTuning(const ui::TuneSettings& settings, const std::vector<ui::TunedSetting>& heads,
                           size_t num_heads_chosen, const std::string& path, const std::string& file) override {
    return OutcomeOf([&] {
             if (!trace_)
               throw UsageError({.problem = "there is no configuration to write", .remedy = "open a trace first"});
             return app::ExportTuning(trace_->reader, settings, heads, num_heads_chosen, path, file), true;
           })
        .Sentence();
  }
  void RunMethod(analysis::HeadId head, const std::string& method, const kernels::ParameterValues& values,
                 int32_t repeats, ui::Reply<analysis::MethodResult> done, ui::Reply<ui::Refusal> failed,
                 ui::Reply<ui::ProgressReport> progress) override;
  void MeasureHeads(const std::vector<analysis::HeadId>& heads, const std::string& method,
                    const kernels::ParameterValues& values, int32_t repeats,
                    const ui::HeadsReplies<analysis::MethodResult>& replies) override;
  void MeasureSettings(const std::vector<ui::HeadSetting>& heads, int32_t repeats,
                       const ui::HeadsReplies<analysis::MethodResult>& replies) override;
  std::string MethodArgument(const std::string& method, const std::string& parameters) const override {
    return app::MethodArgument(method, parameters);
  }
  void CancelRun() override {
    ++run_number_;
    queue_.Cancel("run");
  }

  void ExportMap(const ui::MapDrawing& drawing, const std::string& path, ui::Reply<std::string> done,
                 ui::ErrorReply failed, ui::Reply<ui::ProgressReport> progress) override;
  void ExportMask(analysis::HeadId head, const std::string& method, const kernels::ParameterValues& values,
                  const std::string& path, ui::Reply<std::string> done, ui::ErrorReply failed) override;
  void ExportReport(const std::vector<analysis::HeadStatistics>& statistics,
                    const std::vector<analysis::MethodResult>& runs, const std::vector<ui::MapDrawing>& pictures,
                    const std::string& path, ui::Reply<std::string> done, ui::ErrorReply failed,
                    ui::Reply<ui::ProgressReport> progress) override;
  void ExportTableDrawing(const ui::TableDrawing& table, const std::string& path, ui::Reply<std::string> done,
                          ui::ErrorReply failed) override;
  void CancelMapExport() override {
    ++export_number_;
    queue_.Cancel(kExportTag);
  }
  std::vector<ui::FigureChoice> figures() const override { return FigureChoices(); }
  void RequestFigure(const ui::FigureDrawing& drawing, double pixels_per_point, ui::Reply<ui::FigurePicturePtr> done,
                     ui::ErrorReply failed, ui::Reply<ui::ProgressReport> progress) override {
    SubmitFigure<ui::FigurePicturePtr>(
        drawing,
        [drawing, pixels_per_point](const analysis::Figure& figure) {
          return PaintPicture(figure, drawing, pixels_per_point);
        },
        std::move(done), std::move(failed), std::move(progress));
  }
  void ExportFigure(const ui::FigureDrawing& drawing, const std::string& path, ui::Reply<std::string> done,
                    ui::ErrorReply failed, ui::Reply<ui::ProgressReport> progress) override {
    SubmitFigure<std::string>(
        drawing,
        [trace = trace_, drawing, path](const analysis::Figure& figure) {
          return WriteFigure(figure, trace->reader, drawing, path), path;
        },
        std::move(done), std::move(failed), std::move(progress));
  }
  void CancelFigure() override {
    ++figure_number_;
    queue_.Cancel(kFigureTag);
  }
  std::unique_ptr<ui::Workbench> Another() override {
    auto another = std::make_unique<TraceWorkbench>(options_, post_, shared_);
    another->heads_.ClassLike(heads_);
    return another;
  }

  void DescribeModel(const std::string& model_dir, ui::Reply<ui::ModelDescription> done,
                     ui::ErrorReply failed) override;
  void Capture(const ui::CaptureSettings& settings, ui::Reply<ui::CapturedTrace> done, ui::ErrorReply failed,
               ui::Reply<ui::ProgressReport> progress) override {
    capture_.Start(settings, std::move(done), std::move(failed), std::move(progress));
  }
  void CancelCapture() override { capture_.Cancel(); }
  std::vector<ui::Recordable> recordable() const override { return RecordableByCaptures(); }
  void EstimateCapture(const ui::CaptureSettings& settings, ui::Reply<ui::CaptureEstimate> done,
                       ui::ErrorReply failed) override {
    queue_.Cancel("estimate");
    Submit<ui::CaptureEstimate>(
        "estimate", kThumbnailPriority,
        [settings, estimator = estimator_](const std::stop_token&) { return estimator->Estimate(settings); },
        std::move(done), std::move(failed));
  }

  std::string ExportRuns(const std::vector<analysis::MethodResult>& runs, const std::string& path) override {
    return OutcomeOf([&] { return app::ExportRuns(runs, path), true; }).Sentence();
  }
  std::string ExportStatistics(const std::vector<analysis::HeadStatistics>& statistics,
                               const std::string& path) override {
    return OutcomeOf([&] {
             const analysis::RunOrigin origin = trace_ ? OriginOf(trace_->reader) : analysis::RunOrigin();
             return app::ExportStatistics(statistics, origin, path), true;
           })
        .Sentence();
  }
  std::string ReadRuns(const std::string& path, std::vector<analysis::MethodResult>* runs) override {
    return OutcomeOf([&] { return *runs = app::ReadRuns(path), true; }).Sentence();
  }
  std::string RunAsJson(const analysis::MethodResult& run) override { return app::RunAsJson(run); }
  std::optional<analysis::MethodResult> RunFromJson(const std::string& json) override { return app::RunFromJson(json); }

 private:
  TileSource& TilesOf(ui::MapView view) { return *tiles_[static_cast<size_t>(view)]; }
  // Frees what was held of a trace that is no longer on show, and its memory to the system, in the background.
  void GiveBack(std::shared_ptr<OpenedTrace> closed, std::vector<std::shared_ptr<void>> held);
  void CancelLiveRuns() {
    for (const ui::MapView view : ui::kMapViews) CancelLiveRun(view);
  }
  // Called by a worker, before it measures: everything that was posted so far is on the screen, or it took too long.
  void WaitUntilDrawn(const std::stop_token& stop);
  analysis::CompareOptions OptionsOfRuns(const OpenedTrace& trace, int32_t repeats) const;
  // Heads that are measured with one method; several such, one after the other.
  struct MeasuredTogether {
    std::vector<analysis::HeadId> heads;
    ui::TuneSettings::Method method;
  };
  void SubmitMeasuring(const std::vector<MeasuredTogether>& parts, bool alone, int32_t repeats,
                       const std::string& stage, const ui::HeadsReplies<analysis::MethodResult>& replies);
  // Submits work over many heads: work(calls, stop). `newest`: the number of the newest work of its kind.
  template <typename T, typename Work>
  void SubmitHeads(const std::string& tag, int32_t priority, const std::vector<analysis::HeadId>& heads,
                   const std::string& stage, const int64_t* newest, const ui::HeadsReplies<T>& replies, Work work);

  // Tells of work how much of it is done, as long as it is the newest of its kind: *newest is then its number.
  std::function<void(double share)> TellShare(const std::string& stage, const int64_t* newest,
                                              ui::Reply<ui::ProgressReport> progress) {
    return [this, stage, newest, number = *newest, progress = std::move(progress)](double share) {
      post_([newest, number, progress, report = ui::ProgressReport{.stage = stage, .fraction = share}] {
        if (number == *newest) progress(report);
      });
    };
  }

  // Submits work that makes a T (or throws), and hands it to one of the two replies.
  template <typename T, typename Work>
  void Submit(const std::string& tag, int32_t priority, Work work, ui::Reply<T> done, ui::ErrorReply failed) {
    auto outcome = std::make_shared<Outcome<T>>();
    queue_.Submit(
        tag, priority,
        [outcome, work](const std::stop_token& stop) { *outcome = OutcomeOf([&] { return T(work(stop)); }); },
        [outcome, done = std::move(done), failed = std::move(failed)] {
          if (outcome->refused) {
            failed(outcome->Sentence());
          } else {
            done(std::move(outcome->value));
          }
        });
  }

  // Makes the drawing's figure, unless it is the last one, and hands what `use` makes of it to `done`.
  template <typename T, typename Use>
  void SubmitFigure(const ui::FigureDrawing& drawing, Use use, ui::Reply<T> done, ui::ErrorReply failed,
                    ui::Reply<ui::ProgressReport> progress) {
    CancelFigure();
    if (!trace_) return failed("There is no figure to make: open a trace first.");
    Submit<T>(
        kFigureTag, kTunePriority,
        [cache = figures_, trace = trace_, drawing, use = std::move(use),
         tell = TellShare("Computing figure " + drawing.name, &figure_number_, std::move(progress))](
            const std::stop_token& stop) { return use(*cache->Make(trace, drawing, tell, stop)); },
        std::move(done), std::move(failed));
  }

  const WorkbenchOptions options_;
  const SharedAmongTraces shared_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  const std::function<void(std::function<void()>)> post_;
  std::shared_ptr<OpenedTrace> trace_;
  HeldMasks masks_;
  int64_t search_number_ = 0;  // of the newest search; progress of an older one is dropped
  int64_t tuning_number_ = 0;  // the same of TuneHead's
  int64_t run_number_ = 0;     // the same of runs
  int64_t export_number_ = 0;  // the same of maps in files
  int64_t figure_number_ = 0;  // the same of figures
  int64_t lost_number_ = 0;    // of the newest request for lost keys: several views ask, and each is answered
  int64_t quantise_number_ = 0;
  std::shared_ptr<FigureCache> figures_ = std::make_shared<FigureCache>();
  std::shared_ptr<RunSlot> run_slot_;
  MassCache head_masses_{shared_memory()};
  LiveHeads live_heads_{shared_memory()};
  CaptureJob capture_;
  std::shared_ptr<CaptureEstimator> estimator_ = std::make_shared<CaptureEstimator>();
  KnownHeads heads_;
  analysis::TaskQueue queue_;
  std::vector<std::unique_ptr<TileSource>> tiles_;  // of every view
};

}  // namespace headscope::app
