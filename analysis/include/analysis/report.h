// SPDX-License-Identifier: Apache-2.0
// Pictures and report: the same tiles and numbers as the window's, written to files.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "analysis/head_tensors.h"
#include "analysis/types/comparison.h"
#include "analysis/types/head_statistics.h"
#include "analysis/types/kept_steps.h"
#include "analysis/types/map_words.h"
#include "analysis/types/tile.h"
#include "analysis/types/token_spans.h"
#include "analysis/types/value_scale.h"
#include "base/device.h"
#include "kernels/sparse_index.h"

namespace headscope::analysis {

struct RenderRequest {
  ViewKind view = ViewKind::kScores;
  TileReduction reduction = TileReduction::kMax;
  int64_t row_begin = 0, row_end = 0, column_begin = 0, column_end = 0;  // 0, 0: everything
  int32_t width = 800, height = 800;                                     // of the map alone; axes are added around it
  bool logarithmic = true;
  std::string color_map = "inferno";  // a name of analysis/types/color_map.h
  // What the colours span, as the window's colour bar; nothing: what the picture holds.
  std::optional<ValueRange> range = {};
  bool dark_ground = false;  // around the map and where there are no pairs: dark as the window, or white
  // The curves beside the map: what each query in view spends on the keys in view, and what each key receives. Of views
  // of probabilities.
  bool profiles = false;
  // Called on the caller's thread with the share of the work that is done, 0 to 1. May be empty.
  std::function<void(double share)> progress = {};
  std::stop_token stop = {};
};
// What a view is made of beside its head. Null where it is not used.
struct RenderSources {
  const kernels::SparseIndexView* index = nullptr;        // of every view but kScores and kOther
  const kernels::SparseIndexView* other_index = nullptr;  // of kOverlap
  // Of a decode method, in place of its index: below the map there is then a lane for each step. Of views with a mask
  // but kMask and kDifference, since a step method says nothing of the other rows.
  const KeptSteps* steps = nullptr;
  const KeptSteps* other_steps = nullptr;
  const HeadTensors* other = nullptr;  // of kOther: it begins with the same queries and keys
  // What the caption says of them, as far as it is known (MapOnShow), and what the axes mark.
  MapSource source = {};
  std::optional<MapMethod> method = {}, other_method = {};
  const std::vector<float>* kept_mass = nullptr;  // of every row by `index`, or of every step, for the curve beside
  std::optional<MaskOverlap> overlap = {};
  std::string other_trace = {};
  std::vector<TokenSpan> answers = {};
};
// The head's map with axes, units, a colour bar and the caption of DescribeMap as a file: .svg, .pdf or .png, an image
// of request.width x request.height pixels with letters around it. Returns where it was computed; empty when
// `request.stop` was requested, and then nothing is written. Throws UsageError for a range, a mask or a colour map that
// does not fit, and for .pdf and .png where headscope was built without cairo; FailedError names a file that cannot be
// written.
NamedDevice DrawHeadMap(const HeadTensors& head, const RenderSources& sources, const RenderRequest& request,
                        const std::string& path);

struct ReportInput {
  std::string title;
  std::string trace_path;
  std::string environment;  // CPU or GPU name, threads, date
  std::string written;      // when, and by which headscope; may be empty
  std::vector<HeadStatistics> statistics;
  struct Picture {
    HeadId head;
    std::string caption;
    std::string png_file;  // relative to the report
  };
  std::vector<Picture> pictures;
  std::vector<MethodResult> results;
  std::string results_note;  // how the methods' parameters were chosen; may be empty
};
// report.html: self-contained but for the PNG files beside it.
std::string ReportHtml(const ReportInput& input);

}  // namespace headscope::analysis
