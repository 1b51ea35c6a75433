// SPDX-License-Identifier: Apache-2.0
// Figures of the papers, drawn of a user's own traces: what is computed, as plain data. docs/figures.md lists them.
//
// A new one is one file in analysis/figures that defines a subclass and a function that returns it, and one line in
// analysis/figures/figure_list.h.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "analysis/class_rules.h"
#include "analysis/head_tensors.h"
#include "analysis/types/comparison.h"
#include "base/csv_origin.h"
#include "data/trace_reader.h"

namespace headscope::analysis {

struct FigureAxis {
  std::string title;  // with its unit
  bool logarithmic = false;
  double minimum = 0, maximum = 0;  // equal: by data
};

struct FigureSeries {
  std::string name;
  std::vector<double> x, y;  // NaN: no number there
  bool dots = false;         // of kLines: points that nothing joins
  bool reference = false;    // what the others are compared with: dashed, in the ink of the page
  // Where several traces have the same parts, such as a curve for each k: a part has its colour and a trace its dashes
  // (of kPoints, its marks), and the legend names either once. Both empty: a series with a colour of its own.
  std::string part = {}, trace = {};
};

enum class FigureKind {
  kLines,   // series joined point by point
  kPoints,  // series of points
  kBars,    // a group of bars for each category, one a series; y[i] belongs to categories[i]
  kStack,   // the same, on top of each other
  kHeat,    // y of series i is row i, rows[i] its name, categories the columns'
};

struct FigurePanel {
  std::string title = {};
  FigureKind kind = FigureKind::kLines;
  FigureAxis x = {}, y = {};  // of kHeat: y is the axis of the rows
  FigureAxis value = {};      // of kHeat
  std::vector<std::string> categories = {};
  std::vector<FigureSeries> series = {};
  bool ordered = false;   // series come in an order, such as layers: their colours do, too
  bool diagonal = false;  // of kPoints: where x = y is drawn
};

struct Figure {
  std::string name;  // as typed
  std::string title;
  std::string source;   // the paper's figure or table; empty: headscope's own
  std::string caption;  // what was computed, with the numbers that the paper has for comparison
  std::vector<FigurePanel> panels;
  int32_t columns = 0;  // of the panels on the page; 0: by their number
};

struct FigureTrace {
  const data::TraceReader* trace = nullptr;
  std::string name = {};  // as shown
  std::vector<HeadId> heads = {};
  std::vector<MethodResult> runs = {};  // for figures that show what was measured (FigureInfo::of_runs)
};

struct FigureInput {
  std::vector<FigureTrace> traces;  // at least one
  size_t num_other_runs = 0;        // runs that were given beside FigureTrace::runs and are of none of the traces
  // Rows of a head that are looked at, evenly spaced; figures whose definition takes every row say so.
  int64_t max_rows = 256;
  ClassRules classes = {};  // of figures by class (FigureInfo::by_class)
  int32_t num_threads = 0;
  std::stop_token stop = {};
  std::function<void(double share)> progress = {};
};

struct FigureInfo {
  std::string name;  // as typed after --figure
  std::string title;
  std::string source;  // as Figure::source
  std::string help;    // one line
  int32_t least_traces = 1;
  bool by_class = false;  // heads are told apart by FigureInput::classes
  bool of_runs = false;   // FigureTrace::runs are in it
  int32_t columns = 0;    // as Figure::columns
};

class FigureMaker {
 public:
  virtual ~FigureMaker() = default;
  virtual const FigureInfo& info() const = 0;
  // Throws UsageError where the traces do not have what it takes, CancelledError, and as LoadHead.
  virtual std::vector<FigurePanel> Make(const FigureInput& input, std::string* caption) const = 0;
};

// Every one, in the order of the list. Find: nullptr when there is none of that name.
const std::vector<const FigureMaker*>& FigureMakers();
const FigureMaker* FindFigure(const std::string& name);
// Throws as FigureMaker::Make, and UsageError for too few traces.
Figure MakeFigure(const FigureMaker& maker, const FigureInput& input);

// Schema headscope-figure-1; numbers that there are not are null. CSV: panel, series, x (or category), y, and
// where they are from.
std::string FigureJson(const Figure& figure, const OriginTexts& origin = {});
std::string FigureCsv(const Figure& figure, const CsvOrigin& origin = {});

// The usual page, in points.
inline constexpr int32_t kFigureWidth = 1000;
// Points of a page `width` wide on which every panel has room; 480 at least.
int32_t FigureHeight(const Figure& figure, int32_t width);

// To .svg, .pdf or .png, `width` x `height` points (pixels of a PNG are twice as many). Throws FailedError that names
// the file, and UsageError where headscope was built without cairo.
void DrawFigure(const Figure& figure, int32_t width, int32_t height, const std::string& path);

}  // namespace headscope::analysis
