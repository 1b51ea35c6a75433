// SPDX-License-Identifier: Apache-2.0
// What the window shows, as the command of `headscope` that gives the same numbers or the same picture. Pure. Arguments
// that a shell would read otherwise are quoted.
#pragma once

#include <QString>

#include "ui/workbench.h"

namespace headscope::ui {

// As one argument of a POSIX shell.
QString ShellQuoted(const QString& argument);

// Measures a run of the trace anew: its kept share, its masses and its errors are the same, its times are new ones.
QString CompareCommand(const QString& trace_path, const analysis::MethodResult& run);

// A part of a head's map.
struct MapPart {
  analysis::HeadId head;
  int64_t row_begin = 0, row_end = 0, column_begin = 0, column_end = 0;  // row_end 0: the whole map
  int width = 800, height = 800;                                         // pixels
  bool logarithmic = true, mean = false, dark = false;
  QString color_map;
  // A prefill method whose mask is on show; empty: none.
  QString method, parameters;
};
QString RenderCommand(const QString& trace_path, const MapPart& part);

// The cheapest settings of a method at a target, of every head. `parameters` that are budgets are what the search
// finds: they are left out.
QString TuneCommand(const QString& trace_path, const kernels::MethodSpec& method,
                    const kernels::ParameterValues& values, double target);

// The statistics of every head.
QString AnalyzeCommand(const QString& trace_path, const QString& output);

}  // namespace headscope::ui
