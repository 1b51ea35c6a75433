// SPDX-License-Identifier: Apache-2.0
// The trace on show: opened, given back, its masks, rows and pictures.
#include "workbench/trace_workbench.h"

#include "base/quoted_text.h"
#include "workbench_inside.h"

namespace headscope::app {

void TraceWorkbench::OpenTrace(const std::string& path, ui::Reply<ui::TraceSummary> done, ui::ErrorReply failed) {
  Submit<std::shared_ptr<OpenedTrace>>(
      "open", kOpenPriority,
      [path, memory = shared_memory()](const std::stop_token&) { return std::make_shared<OpenedTrace>(path, memory); },
      [this, done = std::move(done)](const std::shared_ptr<OpenedTrace>& trace) {
        heads_.Forget();
        for (const char* prefix : kShownOfTrace) queue_.Cancel(prefix);
        CancelLiveRuns();
        CancelSearch();
        CancelTuning();
        CancelRun();
        CancelFigure();
        CancelQuantise();
        memory().HoldReleased();
        std::shared_ptr<void> masks = masks_.TakeAll();
        head_masses_.Clear();
        live_heads_.Clear();
        std::shared_ptr<OpenedTrace> before = std::exchange(trace_, trace);
        for (const auto& tiles : tiles_) tiles->SetTrace(trace);
        heads_.CountAsForgotten();
        done(trace->summary);  // the window forgets the trace before, too
        GiveBack(std::move(before), {std::move(masks), memory().TakeReleased()});
      },
      std::move(failed));
}

void TraceWorkbench::GiveBack(std::shared_ptr<OpenedTrace> closed, std::vector<std::shared_ptr<void>> held) {
  queue_.Submit(
      "give back", kGiveBackPriority,
      [slot = run_slot_, closed = std::move(closed), held = std::move(held)](const std::stop_token& stop) mutable {
        slot->Forget();
        held.clear();
        // Work on it that was cancelled ends within a few milliseconds, and may be the last to let go of a part.
        constexpr std::chrono::milliseconds kLookAgain(5);
        for (int look = 0; closed.use_count() > 1 && look < kMostLooks && !stop.stop_requested(); ++look)
          std::this_thread::sleep_for(kLookAgain);
        closed.reset();
        ReturnFreePages();
      },
      // What the window's thread and other work let go of meanwhile.
      [this] {
        queue_.Submit(
            "give back", kGiveBackPriority, [](const std::stop_token&) { ReturnFreePages(); }, [] {});
      });
}

void TraceWorkbench::Quantise(analysis::HeadId head, const ui::QuantiseSettings& settings,
                              ui::Reply<std::vector<ui::QuantisedOutput>> done, ui::ErrorReply failed,
                              ui::Reply<ui::ProgressReport> progress) {
  if (!trace_) return;
  CancelQuantise();
  Submit<std::vector<ui::QuantisedOutput>>(
      kQuantiseTag, kTunePriority,
      [trace = trace_, head, settings, tell = TellShare("Quantising the head", &quantise_number_, std::move(progress))](
          const std::stop_token& stop) { return QuantisedOutputs(trace->reader, head, settings, tell, stop); },
      std::move(done), std::move(failed));
}

void TraceWorkbench::RequestMask(ui::MapView view, analysis::HeadId head, const std::string& method,
                                 const kernels::ParameterValues& values, ui::Reply<ui::LiveMask> done,
                                 ui::ErrorReply failed) {
  if (!trace_) return;
  Submit<MadeMask>(
      kMaskPrefix + ViewName(view), kMaskPriority,
      [this, trace = trace_, view, head, method, values, alone = measures_alone()](const std::stop_token& stop) {
        const kernels::NamedMethod named = MethodFor(trace->reader, method);
        return named.prefill != nullptr
                   ? MaskOfPrefill(*trace, view, head, *named.prefill, values, &head_masses_, &live_heads_, stop)
                   : MaskOfDecode(*trace, view, head, *named.decode, values, alone, stop);
      },
      [this, view, done = std::move(done)](MadeMask made) {
        made.live.distribution = analysis::DistributeMass(made.live.kept_mass);
        if (made.live.steps) made.live.distribution.worst_row += made.live.steps->first_row;
        made.live.mask_id = masks_.Add(view, std::move(made.held));
        done(std::move(made.live));
      },
      std::move(failed));
}

void TraceWorkbench::RequestLiveRun(ui::MapView view, analysis::HeadId head, const std::string& method,
                                    const kernels::ParameterValues& values, int64_t mask_id,
                                    ui::Reply<analysis::LiveRun> done, ui::ErrorReply failed) {
  CancelLiveRun(view);
  const analysis::KeptMask* const mask = masks_.Find(mask_id);
  if (!trace_ || mask == nullptr)
    return post_([failed = std::move(failed)] { failed("This mask is gone; move a slider to make it again."); });
  const auto run = [this, trace = trace_, view, head, method, values, index = mask->index, alone = measures_alone()](
                       Timed timed, const std::stop_token& stop) {
    const kernels::NamedMethod named = MethodFor(trace->reader, method);
    if ((named.prefill != nullptr) != (index != nullptr))
      throw UsageError({.field = "method",
                        .value = Quoted(method),
                        .problem = "the mask is that of a method for another phase",
                        .remedy = "move a slider to make the mask again"});
    if (named.decode != nullptr) return RunDecodeLive(*trace, view, head, *named.decode, values, alone, timed, stop);
    return live_heads_.Run(view, trace->heads.Show(view, head), {*named.prefill, values}, *index, timed, stop);
  };
  // The errors are shown at once, beside the mask that is being drawn. That drawing takes every core, and so would the
  // times be of it: they are taken by a task of its own when it is done, on a map at rest and not between two steps of
  // a slider. Until then no worker waits: the drawing needs them.
  const std::string tag = kLivePrefix + ViewName(view);
  Submit<analysis::LiveRun>(
      tag, kLivePriority, [run](const std::stop_token& stop) { return run(Timed::kNo, stop); },
      [this, view, tag, run, done, failed](const analysis::LiveRun& untimed) {
        // First, so that a reply that cancels the run cancels this.
        shared_.live_turns->Ask(
            {this, view}, [this](std::function<void()> then) { CallWhenDrawn(ui::Drawn::kTiles, std::move(then)); },
            [this, tag, run, done, failed](const LiveTurns::Turn& turn) {
              Submit<analysis::LiveRun>(
                  tag, kLivePriority, [run, turn](const std::stop_token& stop) { return run(Timed::kYes, stop); }, done,
                  failed);
            });
        if (untimed.checked_rows > 0) done(untimed);
      },
      failed);
}

void TraceWorkbench::RequestLostKeys(analysis::HeadId head, int64_t mask_id, int64_t row,
                                     ui::Reply<std::vector<ui::LostKey>> done) {
  const analysis::KeptMask* const mask = masks_.Find(mask_id);
  if (!trace_ || mask == nullptr) return;
  Submit<std::vector<ui::LostKey>>(
      kLostPrefix + std::to_string(++lost_number_), kMaskPriority,
      [trace = trace_, head, held = *mask, row](const std::stop_token&) {
        return LostKeys(*trace->heads.Get(head), held, row, kMostLostKeys);
      },
      std::move(done), [this](const std::string& sentence) { ReportBackgroundError(sentence); });
}

void TraceWorkbench::RequestMaskOverlap(int64_t first_mask, int64_t second_mask,
                                        ui::Reply<analysis::MaskOverlap> done) {
  queue_.Cancel(kOverlapTag);
  const analysis::KeptMask *const first = masks_.Find(first_mask), *const second = masks_.Find(second_mask);
  if (first == nullptr || second == nullptr) return;
  Submit<analysis::MaskOverlap>(
      kOverlapTag, kOverlapPriority,
      [first = *first, second = *second](const std::stop_token& stop) {
        return analysis::CountMaskOverlap(first, second, 1, stop);
      },
      std::move(done), [this](const std::string& sentence) { ReportBackgroundError(sentence); });
}

void TraceWorkbench::CloseView(ui::MapView view) {
  TilesOf(view).Cancel();
  queue_.Cancel(kMaskPrefix + ViewName(view));
  CancelLiveRun(view);
  masks_.ForgetOf(view);
  head_masses_.Leave(view);
  if (trace_) trace_->heads.Leave(view);
}

void TraceWorkbench::RequestRow(analysis::HeadId head, int64_t row, ui::Reply<std::vector<float>> done) {
  if (!trace_) return;
  Submit<std::vector<float>>(
      kRowTag, kMaskPriority,
      [trace = trace_, head, row](const std::stop_token& stop) {
        return analysis::RowProbabilities(*trace->heads.Get(head), row, stop);
      },
      std::move(done), [this](const std::string& sentence) { ReportBackgroundError(sentence); });
}

void TraceWorkbench::RequestThumbnail(analysis::HeadId head, ui::Reply<ui::ThumbnailPtr> done, ui::ErrorReply failed) {
  if (!trace_) return;
  Submit<ui::ThumbnailPtr>(
      kThumbnailPrefix + std::to_string(head.layer) + ":" + std::to_string(head.head), kThumbnailPriority,
      [trace = trace_, head](const std::stop_token& stop) {
        return std::make_shared<const ui::Thumbnail>(
            ui::Thumbnail{analysis::ComputeThumbnail(*trace->heads.GetUncached(head), ui::Thumbnail::kSide, stop)});
      },
      std::move(done), std::move(failed));
}

void TraceWorkbench::DescribeModel(const std::string& model_dir, ui::Reply<ui::ModelDescription> done,
                                   ui::ErrorReply failed) {
  Submit<ui::ModelDescription>(
      "model", kOpenPriority, [model_dir](const std::stop_token&) { return DescribeCheckpoint(model_dir); },
      std::move(done), std::move(failed));
}

std::unique_ptr<ui::Workbench> MakeTraceWorkbench(const WorkbenchOptions& options, ui::PostFunction post) {
  SharedAmongTraces shared;
  shared.live_turns = std::make_shared<LiveTurns>(post);
  return std::make_unique<TraceWorkbench>(options, std::move(post), shared);
}

}  // namespace headscope::app
