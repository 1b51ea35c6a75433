// SPDX-License-Identifier: Apache-2.0
// A figure of the analysis as a file: drawn, or as its numbers.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "analysis/figure_drawing.h"
#include "analysis/figures.h"
#include "base/csv_origin.h"
#include "base/file_format.h"

namespace headscope::app {

inline constexpr std::array kFigureFormats = {FileFormat::kSvg, FileFormat::kPdf, FileFormat::kPng, FileFormat::kJson,
                                              FileFormat::kCsv};

// By the kind of file that `path` asks for. width, height: of a drawing, in points; origin: of its numbers. Throws
// UsageError for another kind, and as OutputFile does.
void WriteFigureFile(const analysis::Figure& figure, int32_t width, int32_t height, const analysis::FigureLook& look,
                     const std::string& path, bool force, const OriginTexts& origin);

}  // namespace headscope::app
