// SPDX-License-Identifier: Apache-2.0
#include "analysis/figure_drawing.h"
#include "analysis/table_drawing.h"
#include "base/errors.h"
#include "report/head_map.h"

namespace headscope::analysis {

int32_t FigureHeight(const Figure& /*figure*/, int32_t /*width*/) {
  return 480;  // nothing is drawn on it
}

void DrawFigure(const Figure& /*figure*/, int32_t /*width*/, int32_t /*height*/, const std::string& path) {
  throw UsageError({.file = path,
                    .problem = "this headscope was built without cairo and draws no figures",
                    .remedy = "install libcairo2-dev and build again, or write .json or .csv"});
}

void DrawFigure(const Figure& figure, int32_t width, int32_t height, const std::string& path,
                const FigureLook& /*look*/) {
  DrawFigure(figure, width, height, path);
}

FigurePixels PaintFigure(const Figure& figure, int32_t /*width*/, int32_t /*height*/, double /*pixels_per_point*/,
                         const FigureLook& /*look*/) {
  throw UsageError({.field = "figure",
                    .value = figure.name,
                    .problem = "it is not drawn, because this headscope was built without cairo",
                    .remedy = "install libcairo2-dev and build again, or save its numbers as .json or .csv"});
}

void DrawTable(const TableText& /*table*/, const std::string& path, const FigureLook& /*look*/, int32_t /*png_width*/) {
  throw UsageError({.file = path,
                    .problem = "this headscope was built without cairo and draws no tables",
                    .remedy = "install libcairo2-dev and build again, or write .csv"});
}

void PaintWithCairo(const HeadMap& /*map*/, int32_t /*width*/, int32_t /*height*/, const std::string& path) {
  throw UsageError({.file = path,
                    .problem = "this headscope was built without cairo and draws no .pdf and no .png",
                    .remedy = "install libcairo2-dev and build again, or write .svg"});
}

}  // namespace headscope::analysis
