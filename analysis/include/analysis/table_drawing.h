// SPDX-License-Identifier: Apache-2.0
// A table as a picture, by the painter of figures: letters stay letters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/figure_drawing.h"

namespace headscope::analysis {

struct TableText {
  struct Column {
    std::string title;
    bool right = false;  // its texts end where its title ends, as numbers do
  };
  std::string title;  // empty: none
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // each as long as `columns`
};

// To .svg, .pdf or .png; the page is as large as the table. `png_width`: pixels across of a .png; 0: two a point.
// Throws FailedError that names the file, and UsageError for a table that no page of 16,000 points holds, for one that
// is too high at this width, and where headscope was built without cairo.
void DrawTable(const TableText& table, const std::string& path, const FigureLook& look = {}, int32_t png_width = 0);

}  // namespace headscope::analysis
