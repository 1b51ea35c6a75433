// SPDX-License-Identifier: Apache-2.0
// Figures by their one painter, on white paper or on the window's dark ground, in files or as pixels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/figures.h"

namespace headscope::analysis {

struct FigureLook {
  bool dark = false;     // on kDarkGround, as the window's maps are
  bool captions = true;  // title, source and caption; without them the panels have the whole page
};

// As DrawFigure of analysis/figures.h.
void DrawFigure(const Figure& figure, int32_t width, int32_t height, const std::string& path, const FigureLook& look);

struct FigurePixels {
  int32_t width = 0, height = 0;
  std::vector<uint32_t> rgb;  // [height, width], 0xffRRGGBB
};
// The same picture, `width` x `height` points large, as pixels. Throws UsageError where a panel has no room, and where
// headscope was built without cairo.
FigurePixels PaintFigure(const Figure& figure, int32_t width, int32_t height, double pixels_per_point,
                         const FigureLook& look);

}  // namespace headscope::analysis
