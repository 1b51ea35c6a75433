// SPDX-License-Identifier: Apache-2.0
// What the window shows, as the command of `headscope` that gives the same numbers or the same picture. Pure. Arguments
// that a shell would read otherwise are quoted.
#pragma once

#include <QString>
#include <QStringList>
#include <cstdint>

#include "class_settings.h"
#include "ui/workbench.h"

namespace headscope::ui {

// As one argument of a POSIX shell.
QString ShellQuoted(const QString& argument);

// Measures a run of the trace anew: its kept share, its masses and its errors are the same, its times are new ones.
// `method`: Workbench::MethodArgument of the run.
QString CompareCommand(const QString& trace_path, const QString& method, const analysis::MethodResult& run);

// The mass that every query of the head keeps under the method, a line each: what Kept mass and Mass by query count.
// `method`: Workbench::MethodArgument. `decode_rows`: those that a decode method is shown on; 0 of a prefill method.
// `alone`: decode methods choose for the head by itself.
QString KeptMassCommand(const QString& trace_path, analysis::HeadId head, const QString& method, int64_t decode_rows,
                        bool alone);

// Measures all runs of one head and phase anew: the points of its trade-off. `methods`: Workbench::MethodArgument of
// each run, once each. What a command has once (device, repeats, what is timed) is that of `run`, one of them.
QString TradeOffCommand(const QString& trace_path, const QStringList& methods, const analysis::MethodResult& run);

// Draws the map again, into a PNG. `alone`: its decode methods choose for the head by itself.
QString RenderCommand(const QString& trace_path, const MapDrawing& drawing, bool alone = false);

// Draws the figure again, into an SVG on white paper.
// `classes`: where the drawing's thresholds have their names. `runs_path`: where its runs are.
QString FigureCommand(const QString& trace_path, const FigureDrawing& drawing,
                      const std::vector<ClassThreshold>& classes = {}, const QString& runs_path = {});

// The heads' statistics, classes and alarms, by these thresholds.
QString AnalyzeCommand(const QString& trace_path, const ClassSettings& classes);

// How the heads of the other trace differ, in this metric; empty: in those that the command shows unasked.
QString TraceDifferenceCommand(const QString& trace_path, const QString& other_path, const QString& metric = {});

// What each of two methods keeps of the head alone, and what both keep. The methods as `headscope` takes them.
QString MaskDifferenceCommand(const QString& trace_path, analysis::HeadId head, const QString& method,
                              const QString& other_method);

// Records the same trace, unless its file is there: the command refuses to replace one unasked. Paths of `settings` are
// absolute: a terminal is in another folder.
QString CaptureCommand(const CaptureSettings& settings);

// What few bits do to the head's output, a line for each setting.
QString QuantiseCommand(const QString& trace_path, analysis::HeadId head, const QuantiseSettings& settings);

// The cheapest settings of the methods at a target. Parameters that are budgets are what the search finds: they are
// left out. `settings`: of HeadSweep::OnTrace. `registry`: whose methods the settings name. `heads`: empty for all.
QString TuneCommand(const QString& trace_path, const std::vector<kernels::MethodSpec>& registry,
                    const TuneSettings& settings, const std::vector<analysis::HeadId>& heads = {});
// Measures each head's own method of a configuration's file. `heads`: those that are measured, of `num_recorded`.
QString ConfigurationCommand(const QString& trace_path, const QString& config_path,
                             const std::vector<HeadSetting>& heads, size_t num_recorded);

}  // namespace headscope::ui
