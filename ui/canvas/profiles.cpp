// SPDX-License-Identifier: Apache-2.0
#include "profiles.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace headscope::ui {

namespace {

struct Sum {
  double mass = 0;
  double scores = 0;
  bool complete = true;
};

}  // namespace

ViewProfiles ComputeProfiles(const ScoreRect& visible, int32_t level, const CausalRows& rows,
                             const std::function<analysis::TilePtr(int32_t tile_x, int32_t tile_y)>& find) {
  using analysis::kTileSize;
  ViewProfiles profiles;
  profiles.level = level;
  const double texel = std::ldexp(1.0, level);
  const auto column_begin = static_cast<int64_t>(std::floor(visible.column_begin / texel));
  const auto column_end = static_cast<int64_t>(std::ceil(visible.column_end / texel));
  const auto row_begin = static_cast<int64_t>(std::floor(visible.row_begin / texel));
  const auto row_end = static_cast<int64_t>(std::ceil(visible.row_end / texel));
  if (column_end <= column_begin || row_end <= row_begin) return profiles;
  profiles.first_column_bin = column_begin;
  profiles.first_row_bin = row_begin;
  std::vector<Sum> columns(static_cast<size_t>(column_end - column_begin));
  std::vector<Sum> row_sums(static_cast<size_t>(row_end - row_begin));

  for (int64_t tile_y = row_begin / kTileSize; tile_y * kTileSize < row_end; ++tile_y) {
    for (int64_t tile_x = column_begin / kTileSize; tile_x * kTileSize < column_end; ++tile_x) {
      const analysis::TileKey key{
          {}, analysis::TileReduction::kMean, level, static_cast<int32_t>(tile_x), static_cast<int32_t>(tile_y)};
      if (!rows.HasScores(key)) continue;
      const analysis::TilePtr tile = find(key.x, key.y);
      const int64_t y_begin = std::max(row_begin, tile_y * kTileSize),
                    y_end = std::min(row_end, (tile_y + 1) * kTileSize);
      const int64_t x_begin = std::max(column_begin, tile_x * kTileSize),
                    x_end = std::min(column_end, (tile_x + 1) * kTileSize);
      for (int64_t y = y_begin; y < y_end; ++y) {
        Sum& row = row_sums[static_cast<size_t>(y - row_begin)];
        for (int64_t x = x_begin; x < x_end; ++x) {
          Sum& column = columns[static_cast<size_t>(x - column_begin)];
          if (!tile) {
            row.complete = column.complete = false;
            continue;
          }
          const auto scores = static_cast<double>(rows.ScoresInTexel(level, x, y));
          if (scores == 0) break;  // the rest of the row lies above the diagonal
          const size_t texel_index =
              static_cast<size_t>((y - tile_y * kTileSize) * kTileSize + (x - tile_x * kTileSize));
          const double mass = std::exp2(static_cast<double>(tile->log2_p[texel_index])) * scores;
          row.mass += mass;
          column.mass += mass;
          column.scores += scores;
        }
      }
    }
  }

  const float missing = std::numeric_limits<float>::quiet_NaN();
  for (const Sum& column : columns) {
    const double mean = column.scores > 0 ? column.mass / column.scores : 0;
    profiles.column_mean.push_back(column.complete ? static_cast<float>(mean) : missing);
  }
  for (int64_t y = row_begin; y < row_end; ++y) {
    const Sum& row = row_sums[static_cast<size_t>(y - row_begin)];
    const int64_t rows_in_bin = std::min((y + 1) << level, rows.num_rows()) - (y << level);
    profiles.row_mass.push_back(
        row.complete && rows_in_bin > 0 ? static_cast<float>(row.mass / static_cast<double>(rows_in_bin)) : missing);
  }
  return profiles;
}

std::optional<ProfilePeak> PeakOf(const std::vector<float>& bins, int64_t first_bin, int32_t level, int64_t map_size) {
  std::optional<ProfilePeak> peak;
  for (size_t i = 0; i < bins.size(); ++i) {
    if (std::isnan(bins[i]) || (peak && bins[i] <= peak->value)) continue;
    const int64_t bin = first_bin + static_cast<int64_t>(i);
    peak = ProfilePeak{bins[i], bin << level, std::min((bin + 1) << level, map_size)};
  }
  return peak;
}

std::string KeyProfileThatFits(const std::string& whole, const std::string& narrow,
                               const std::function<bool(const std::string&)>& fits) {
  // Where the largest is can be seen, and of what it is the largest, stands in the manual.
  const std::string without_place = narrow.substr(0, narrow.find(" ("));
  const size_t semicolon = without_place.find("; ");
  const std::string largest = semicolon == std::string::npos ? without_place : without_place.substr(semicolon + 2);
  for (const std::string& text : {whole, narrow, without_place, largest}) {
    if (fits(text)) return text;
  }
  return {};
}

std::vector<ProfileBar> BarsOf(const std::vector<float>& bins, double scale,
                               const std::function<double(size_t)>& edge) {
  std::vector<ProfileBar> bars;
  int64_t taken = std::numeric_limits<int64_t>::min();  // pixels before it have a bar
  for (size_t i = 0; i < bins.size(); ++i) {
    if (std::isnan(bins[i])) continue;
    auto begin = static_cast<int64_t>(std::floor(edge(i) * scale));
    const int64_t end = std::max(begin + 1, static_cast<int64_t>(std::floor(edge(i + 1) * scale)));
    if (begin < taken) {
      bars.back().value = std::max(bars.back().value, bins[i]);
      begin = taken;
    }
    if (end <= begin) continue;
    bars.push_back({static_cast<double>(begin) / scale, static_cast<double>(end) / scale, bins[i]});
    taken = end;
  }
  return bars;
}

}  // namespace headscope::ui
