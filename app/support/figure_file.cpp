// SPDX-License-Identifier: Apache-2.0
#include "support/figure_file.h"

#include "support/output_file.h"
#include "support/run_origin.h"

namespace headscope::app {

void WriteFigureFile(const analysis::Figure& figure, int32_t width, int32_t height, const analysis::FigureLook& look,
                     const std::string& path, bool force, const OriginTexts& origin) {
  switch (FormatOfOutput(path, kFigureFormats)) {
    case FileFormat::kJson:
      return WriteText(analysis::FigureJson(figure, origin), path, force);
    case FileFormat::kCsv:
      return WriteText(analysis::FigureCsv(figure, CsvOriginOf(origin)), path, force);
    default:
      break;
  }
  OutputFile output(path, force);
  output.Write([&](const std::string& temporary) { analysis::DrawFigure(figure, width, height, temporary, look); });
  output.Commit();
}

}  // namespace headscope::app
