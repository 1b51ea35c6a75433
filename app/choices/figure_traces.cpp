// SPDX-License-Identifier: Apache-2.0
#include "choices/figure_traces.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "support/run_origin.h"

namespace headscope::app {
namespace {

using std::filesystem::path;

// The stem behind that many folders, as far as the path has them.
std::string StemBehind(const path& file, size_t folders) {
  path name = file.stem(), above = file.parent_path();
  for (size_t i = 0; i < folders && above.has_filename(); ++i, above = above.parent_path())
    name = above.filename() / name;
  return name.string();
}

bool HasRowsOf(const analysis::MethodResult& run, const data::TraceReader& trace) {
  const auto rows = static_cast<int64_t>(trace.row_positions().size());
  return run.phase == kernels::Phase::kDecode ? run.num_rows <= rows : run.num_rows == rows;
}

// The place of the trace that a run names.
std::optional<size_t> PlaceNamed(const analysis::RunOrigin& origin, const std::vector<analysis::FigureTrace>& traces) {
  std::vector<size_t> of_that_name;
  for (size_t place = 0; place < traces.size(); ++place) {
    const analysis::RunOrigin here = OriginOf(*traces[place].trace);
    if (here.trace == origin.trace) return place;
    if (here.model == origin.model && path(here.trace).filename() == path(origin.trace).filename())
      of_that_name.push_back(place);
  }
  if (of_that_name.size() == 1) return of_that_name.front();
  return std::nullopt;
}

}  // namespace

std::vector<std::string> NamesOfTraces(const std::vector<std::string>& paths) {
  std::vector<path> files;
  std::vector<std::string> names;
  for (const std::string& one : paths) {
    std::error_code error;
    const path absolute = std::filesystem::absolute(one, error);
    files.push_back((error ? path(one) : absolute).lexically_normal());
    names.push_back(files.back().stem().string());
  }
  const auto is_twice = [&names](size_t i) { return std::ranges::count(names, names[i]) > 1; };
  const std::vector<std::string> stems = names;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto is_same = [&](size_t other, size_t folders) {
      return other != i && files[other] != files[i] && stems[other] == stems[i] &&
             StemBehind(files[other], folders) == StemBehind(files[i], folders);
    };
    const auto deepest = static_cast<size_t>(std::distance(files[i].begin(), files[i].end()));
    size_t folders = 0;
    for (size_t other = 0; other < files.size(); ++other) {
      while (folders < deepest && is_same(other, folders)) ++folders;
    }
    names[i] = StemBehind(files[i], folders);
  }
  std::map<std::string, int> numbers;
  std::vector<std::string> numbered = names;
  for (size_t i = 0; i < names.size(); ++i) {
    if (is_twice(i)) numbered[i] += " (" + std::to_string(++numbers[names[i]]) + ")";
  }
  return numbered;
}

size_t AssignRuns(std::vector<analysis::MethodResult> runs, size_t place_of_file,
                  std::vector<analysis::FigureTrace>* traces) {
  // A decode run's steps say little about the length, so one file's runs stand or fall together.
  const bool fits = place_of_file < traces->size() && std::ranges::all_of(runs, [&](const analysis::MethodResult& run) {
                      return !run.origin.trace.empty() || HasRowsOf(run, *(*traces)[place_of_file].trace);
                    });
  size_t of_none = 0;
  for (analysis::MethodResult& run : runs) {
    std::optional<size_t> place;
    if (!run.origin.trace.empty()) {
      place = PlaceNamed(run.origin, *traces);
      if (place && !HasRowsOf(run, *(*traces)[*place].trace)) place.reset();  // captured anew since
    } else if (fits) {
      place = place_of_file;
    }
    if (place) {
      (*traces)[*place].runs.push_back(std::move(run));
    } else {
      ++of_none;
    }
  }
  return of_none;
}

}  // namespace headscope::app
