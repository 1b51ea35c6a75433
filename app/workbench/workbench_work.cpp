// SPDX-License-Identifier: Apache-2.0
// What a person asks the workbench for and waits for: runs, searches and tunings, and what is written.
#include "analysis/table_drawing.h"
#include "base/quoted_text.h"
#include "choices/file_kinds.h"
#include "choices/head_results.h"
#include "choices/head_settings.h"
#include "choices/method_choice.h"
#include "choices/saved_index.h"
#include "choices/trace_index.h"
#include "choices/tuning_traces.h"
#include "support/output_file.h"
#include "workbench_inside.h"

namespace headscope::app {

void TraceWorkbench::ExportMap(const ui::MapDrawing& drawing, const std::string& path, ui::Reply<std::string> done,
                               ui::ErrorReply failed, ui::Reply<ui::ProgressReport> progress) {
  if (!trace_) return;
  CancelMapExport();
  Submit<std::string>(
      kExportTag, kMaskPriority,
      [trace = trace_, drawing, path, alone = measures_alone(),
       tell = TellShare("Exporting " + std::filesystem::path(path).filename().string(), &export_number_,
                        std::move(progress))](const std::stop_token& stop) {
        WriteMapFile(*trace, drawing, alone, path, tell, stop);
        return path;
      },
      std::move(done), std::move(failed));
}

void TraceWorkbench::ExportReport(const std::vector<analysis::HeadStatistics>& statistics,
                                  const std::vector<analysis::MethodResult>& runs,
                                  const std::vector<ui::MapDrawing>& pictures, const std::string& path,
                                  ui::Reply<std::string> done, ui::ErrorReply failed,
                                  ui::Reply<ui::ProgressReport> progress) {
  if (!trace_) return;
  CancelMapExport();
  Submit<std::string>(
      kExportTag, kMaskPriority,
      [trace = trace_, statistics, runs, pictures, path, alone = measures_alone(),
       tell = TellShare("Writing " + std::filesystem::path(path).filename().string(), &export_number_,
                        std::move(progress))](const std::stop_token& stop) {
        WriteReport(*trace, statistics, runs, pictures, alone, path, tell, stop);
        return path;
      },
      std::move(done), std::move(failed));
}

void TraceWorkbench::ExportMask(analysis::HeadId head, const std::string& method,
                                const kernels::ParameterValues& values, const std::string& path,
                                ui::Reply<std::string> done, ui::ErrorReply failed) {
  if (!trace_) return;
  Submit<std::string>(
      "export mask", kMaskPriority,
      [trace = trace_, head, method, values, path](const std::stop_token& stop) {
        const MethodChoice choice = ParseMethod(app::MethodArgument(method, ""), "method");
        if (choice.prefill == nullptr)
          throw UsageError({.field = "method",
                            .value = method,
                            .problem = "it selects step by step, and has no mask of the prompt to export",
                            .remedy = "choose a prefill method"});
        CheckMethodIsOfModel(choice.name, trace->reader);
        MethodChoice chosen = choice;
        chosen.values = values;
        WriteIndex(IndexOfTrace(trace->reader, {head}, chosen, analysis::Measure::kHead, 0, stop), path,
                   /*force=*/true);
        return path;
      },
      std::move(done), std::move(failed));
}

void TraceWorkbench::ExportTableDrawing(const ui::TableDrawing& table, const std::string& path,
                                        ui::Reply<std::string> done, ui::ErrorReply failed) {
  Submit<std::string>(
      "export table", kMaskPriority,
      [table, path](const std::stop_token&) {
        analysis::TableText text;
        text.title = table.title;
        for (const ui::TableDrawing::Column& column : table.columns)
          text.columns.push_back({column.title, column.right});
        text.rows = table.rows;
        OutputFile output(path, /*force=*/true);
        output.Write([&](const std::string& temporary) { analysis::DrawTable(text, temporary, {}, table.png_width); });
        output.Commit();
        return path;
      },
      std::move(done), std::move(failed));
}

void TraceWorkbench::MeetTarget(analysis::HeadId head, const std::string& method,
                                const kernels::ParameterValues& values, double target,
                                ui::Reply<kernels::ParameterValues> done, ui::Reply<ui::Refusal> failed,
                                ui::Reply<ui::ProgressReport> progress) {
  if (!trace_) return;
  CancelSearch();
  const auto unsupported = std::make_shared<bool>(false);
  Submit<kernels::ParameterValues>(
      "search", kMaskPriority,
      [this, trace = trace_, head, method, values, target, alone = measures_alone(), unsupported,
       tell = TellShare("Searching " + method, &search_number_, std::move(progress))](const std::stop_token& stop) {
        analysis::BudgetSearchOptions options;
        options.stop = stop;
        options.progress = tell;
        return app::MeetTarget(*trace, head, {method, values}, target, alone, options, &head_masses_,
                               unsupported.get());
      },
      std::move(done),
      [=](const std::string& sentence) {
        failed({sentence, *unsupported});
      });
}

template <typename T, typename Work>
void TraceWorkbench::SubmitHeads(const std::string& tag, int32_t priority, const std::vector<analysis::HeadId>& heads,
                                 const std::string& stage, const int64_t* newest, const ui::HeadsReplies<T>& replies,
                                 Work work) {
  // What is answered from within the work is dropped when other work has taken its place.
  const auto post = [this, newest, number = *newest](auto call) {
    post_([newest, number, call = std::move(call)] {
      if (number == *newest) call();
    });
  };
  HeadsCalls<T> calls;
  calls.one = [post, one = replies.one](T result) { post([one, result = std::move(result)] { one(result); }); };
  calls.failed = [post, failed = replies.failed](ui::FailedHead head) {
    post([failed, head = std::move(head)] { failed(head); });
  };
  calls.progress = [post, stage, progress = replies.progress](double share) {
    ui::ProgressReport report;
    report.stage = stage;
    report.fraction = share;
    post([progress, report] { progress(report); });
  };
  const auto finish = [post, finished = replies.finished] { post(finished); };
  Submit<bool>(
      tag, priority, [calls, work = std::move(work)](const std::stop_token& stop) { return work(calls, stop), true; },
      [finish](bool) { finish(); },
      [heads, failed = calls.failed, finish](const std::string& sentence) {
        // The heads that were done before have been told of: a second word about them changes nothing.
        for (const analysis::HeadId& head : heads) failed({head, sentence});
        finish();
      });
}

void TraceWorkbench::TuneHeads(const std::vector<analysis::HeadId>& heads, const ui::TuneSettings& settings,
                               const ui::HeadsReplies<ui::TunedSetting>& replies) {
  if (!trace_) return;
  CancelTuning();
  SubmitHeads(
      "tune", kTunePriority, heads, "Tuning", &tuning_number_, replies,
      [this, trace = trace_, heads, settings](const HeadsCalls<ui::TunedSetting>& calls, const std::stop_token& stop) {
        const auto paused = IsTimed(settings) ? std::make_unique<PauseStatistics>(heads_.job()) : nullptr;
        if (paused) queue_.WaitUntilAlone(stop, kLongestWaitForQuiet);
        app::TuneHeads(*trace, heads, settings, calls, stop);
      });
}

void TraceWorkbench::MeasureHeads(const std::vector<analysis::HeadId>& heads, const std::string& method,
                                  const kernels::ParameterValues& values, int32_t repeats,
                                  const ui::HeadsReplies<analysis::MethodResult>& replies) {
  SubmitMeasuring({{heads, {method, values}}}, measures_alone(), repeats, "Measuring " + method, replies);
}

void TraceWorkbench::MeasureSettings(const std::vector<ui::HeadSetting>& heads, int32_t repeats,
                                     const ui::HeadsReplies<analysis::MethodResult>& replies) {
  std::vector<MeasuredTogether> parts;
  for (const ui::HeadSetting& setting : heads) {
    auto part = std::ranges::find(parts, setting.method, &MeasuredTogether::method);
    if (part == parts.end()) part = parts.insert(parts.end(), {{}, setting.method});
    part->heads.push_back(setting.head);
  }
  SubmitMeasuring(parts, /*alone=*/true, repeats, "Measuring a configuration", replies);
}

void TraceWorkbench::SubmitMeasuring(const std::vector<MeasuredTogether>& parts, bool alone, int32_t repeats,
                                     const std::string& stage,
                                     const ui::HeadsReplies<analysis::MethodResult>& replies) {
  if (!trace_) return;
  CancelRun();
  std::vector<analysis::HeadId> heads;
  for (const MeasuredTogether& part : parts) heads.insert(heads.end(), part.heads.begin(), part.heads.end());
  SubmitHeads("run", kMaskPriority, heads, stage, &run_number_, replies,
              [this, trace = trace_, parts, num_heads = heads.size(), repeats, alone](
                  HeadsCalls<analysis::MethodResult> calls, const std::stop_token& stop) {
                for (const MeasuredTogether& part : parts) CheckMethodIsOfModel(part.method.name, trace->reader);
                const PauseStatistics paused(heads_.job());
                queue_.WaitUntilAlone(stop, kLongestWaitForQuiet);
                WaitUntilDrawn(stop);
                // A frame is drawn now and then, and the next repeat waits for it.
                ReportNowAndThen now_and_then([&, pass_on = calls.progress](const ui::ProgressReport& report) {
                  pass_on(report.fraction);
                  WaitUntilDrawn(stop);
                });
                size_t done = 0;  // heads of the parts before
                double share = 0;
                for (const MeasuredTogether& part : parts) {
                  MeasuredSweep sweep;
                  sweep.method = part.method.name;
                  sweep.values = part.method.values;
                  sweep.alone = alone;
                  sweep.options = OptionsOfRuns(*trace, repeats);
                  calls.progress = [&](double of_part) {
                    share = (static_cast<double>(done) + of_part * static_cast<double>(part.heads.size())) /
                            static_cast<double>(num_heads);
                  };
                  sweep.repeats = [&](const analysis::RepeatProgress&) {
                    ui::ProgressReport report;
                    report.fraction = share;
                    now_and_then(std::move(report));
                  };
                  app::MeasureHeads(*trace, part.heads, sweep, calls, stop);
                  if (stop.stop_requested()) return;
                  done += part.heads.size();
                }
              });
}

std::vector<ui::MethodFile> TraceWorkbench::method_files() const {
  std::vector<ui::MethodFile> kinds;
  for (const FileKind& kind : FileKinds()) kinds.push_back({kind.name, kind.help});
  return kinds;
}

void TraceWorkbench::ReadMethodFile(const std::string& kind, const std::string& path, ui::Reply<std::string> done,
                                    ui::ErrorReply failed) {
  Submit<std::string>(
      "method file", kOpenPriority,
      [kind, path, trace = trace_](const std::stop_token&) {
        // What a run in a file names may be anything: a pipe would hold this worker for ever.
        std::error_code unknown;
        if (std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown))
          throw BadInputError({.file = path, .problem = "is not a regular file", .remedy = "choose another file"});
        const std::string name = ParseMethod(app::MethodArgument(kind + "[" + path + "]", ""), "method").name;
        if (trace) CheckMethodIsOfModel(name, trace->reader);
        return name;
      },
      [this, path, done = std::move(done)](const std::string& name) {
        std::vector<kernels::MethodSpec>& methods = *shared_.methods;
        const auto list = [&](kernels::MethodSpec spec) {
          spec.name = kernels::UniqueName(spec);
          spec.title += ", " + analysis::Printable(std::filesystem::path(path).filename().string());
          if (std::ranges::find(methods, spec.name, &kernels::MethodSpec::name) == methods.end())
            methods.push_back(std::move(spec));
        };
        list(kernels::FindPrefillMethod(name)->spec());
        if (const kernels::DecodeMethod* const decode = kernels::FindDecodeMethod(name)) list(decode->spec());
        done(name);
      },
      std::move(failed));
}

void TraceWorkbench::ReadConfiguration(const std::string& path, ui::Reply<std::vector<ui::HeadSetting>> done,
                                       ui::ErrorReply failed) {
  if (!trace_) return failed("There are no heads to give settings to: open a trace first.");
  Submit<std::vector<ui::HeadSetting>>(
      "configuration", kOpenPriority,
      [path, trace = trace_](const std::stop_token&) {
        if (HoldsBudgets(path))
          throw UsageError({.file = path,
                            .problem = "it only says how many tokens stay, for every ratio",
                            .remedy = "compare it on the command line, where each ratio is a run"});
        const std::vector<RangeSettings> ranges = ReadHeadSettings(path);
        const HeadSettings& settings = SettingsFor(ranges, PromptTokens(trace->reader), path);
        CheckSettingsAreOfModel(settings, path, trace->reader.path(), HeadsOfLayers(trace->reader));
        std::vector<ui::HeadSetting> of_heads;
        for (const analysis::HeadId& head : trace->summary.heads) {
          const auto found = settings.find(head);
          if (found != settings.end()) of_heads.push_back({head, {found->second.name, found->second.values}});
        }
        if (of_heads.empty())
          throw UsageError({.file = path,
                            .problem = "it has no settings for the heads of this trace",
                            .remedy = "open another one"});
        return of_heads;
      },
      std::move(done), std::move(failed));
}

void TraceWorkbench::RunMethod(analysis::HeadId head, const std::string& method, const kernels::ParameterValues& values,
                               int32_t repeats, ui::Reply<analysis::MethodResult> done, ui::Reply<ui::Refusal> failed,
                               ui::Reply<ui::ProgressReport> progress) {
  if (!trace_) return;
  CancelRun();
  ui::ProgressReport report;
  report.stage = "Measuring " + method;
  report.fraction = 0;  // known, for an unknown one is an animation: frames beside the run
  progress(report);
  const auto unsupported = std::make_shared<bool>(false);
  // The statistics wait, and the run waits for the map and for the screen: a run's times must be its own.
  Submit<analysis::MethodResult>(
      "run", kMaskPriority,
      [this, number = run_number_, slot = run_slot_, trace = trace_, head, method, values, repeats,
       alone = measures_alone(), progress, unsupported](const std::stop_token& stop) {
        CheckMethodIsOfModel(method, trace->reader);
        const PauseStatistics paused(heads_.job());
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
          auto layer = std::make_shared<analysis::MeasuredHeads>(*analysis::LoadLayer(trace->reader, shown->id));
          layer->known = {shown};
          return layer;
        };
        settings.alone = alone;
        settings.with_lower_layers = LowerLayersFor(*trace, method, values, head.layer);
        settings.options = OptionsOfRuns(*trace, repeats);
        settings.report = [&](const analysis::RepeatProgress& repeat) { now_and_then(method, repeat); };
        analysis::MethodResult result;
        const kernels::Status status = slot->Run(trace->heads.Get(head), settings, method, values, stop, &result);
        *unsupported = status.code() == kernels::StatusCode::kUnsupported;
        CheckStatus(status);
        result.origin = OriginOf(trace->reader);
        return result;
      },
      std::move(done),
      [=](const std::string& sentence) {
        failed({sentence, *unsupported});
      });
}

analysis::CompareOptions TraceWorkbench::OptionsOfRuns(const OpenedTrace& trace, int32_t repeats) const {
  analysis::CompareOptions options;
  options.repeats = repeats;
  options.least_ms = options_.least_measured_ms;
  options.decode_rows = trace.DecodeRows();
  options.other_dense = TorchDecode(0);
  return options;
}

void TraceWorkbench::WaitUntilDrawn(const std::stop_token& stop) {
  // Held by both sides: the worker may have given up when the window answers.
  const auto drawn = std::make_shared<std::promise<void>>();
  const std::future<void> answer = drawn->get_future();
  post_([this, drawn] { CallWhenDrawn(ui::Drawn::kFrames, [drawn] { drawn->set_value(); }); });
  const auto end = std::chrono::steady_clock::now() + kLongestWaitForScreen;
  constexpr std::chrono::milliseconds kLookAtFlag(2);
  while (!stop.stop_requested() && std::chrono::steady_clock::now() < end) {
    if (answer.wait_for(kLookAtFlag) == std::future_status::ready) return;
  }
}

}  // namespace headscope::app
