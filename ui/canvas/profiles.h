// SPDX-License-Identifier: Apache-2.0
// The curves along the map's edges, made from tiles of mean probability: what a key receives and what a query spends,
// within the view.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/types/map_words.h"
#include "causal_rows.h"
#include "view_transform.h"

namespace headscope::ui {

// Bins are texels of `level`; bin i of an axis covers scores [(first + i) * 2^level, ..). NaN where no tile was at hand
// for the whole bin.
struct ViewProfiles {
  int32_t level = 0;
  int64_t first_column_bin = 0, first_row_bin = 0;
  std::vector<float> column_mean;  // mean probability of the bin's keys, over the visible rows that see them
  std::vector<float> row_mass;     // mean over the bin's rows of the mass that they put on the visible columns
};

// find: the tile of mean probability at a key, or null. Bins partly outside `visible` count whole. Cost: one step per
// visible texel.
ViewProfiles ComputeProfiles(const ScoreRect& visible, int32_t level, const CausalRows& rows,
                             const std::function<analysis::TilePtr(int32_t tile_x, int32_t tile_y)>& find);

// The greatest bin of a profile and the rows or columns that it stands for, not beyond the map; nothing when no bin is
// known.
using analysis::ProfilePeak;
std::optional<ProfilePeak> PeakOf(const std::vector<float>& bins, int64_t first_bin, int32_t level, int64_t map_size);

// What fits of a key profile's caption (analysis::DescribeKeyProfile, `whole` or narrow): less and less of it, but no
// part of a number, which would be another one. Nothing: not even the largest fits.
std::string KeyProfileThatFits(const std::string& whole, const std::string& narrow,
                               const std::function<bool(const std::string&)>& fits);

// Bars for the values that are known, bin i from edge(i) to edge(i + 1), with ends between pixels of the screen, of
// which a point of the window has `scale`. Bars that cover each other would be darker there, since they let the ground
// through: bins that share a pixel are one bar, of the largest of them, which must not hide.
struct ProfileBar {
  double begin = 0, end = 0;
  float value = 0;
};
std::vector<ProfileBar> BarsOf(const std::vector<float>& bins, double scale, const std::function<double(size_t)>& edge);

}  // namespace headscope::ui
