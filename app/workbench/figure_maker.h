// SPDX-License-Identifier: Apache-2.0
// The figures of the analysis as the window asks for them: made once, painted as often as its pane changes.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "analysis/figures.h"
#include "opened_trace.h"
#include "ui/workbench.h"

namespace headscope::app {

std::vector<ui::FigureChoice> FigureChoices();

class FigureCache {
 public:
  // The figure of a drawing; what was made last is kept, unless it is of another trace as well, whose file may be
  // written anew. Throws as analysis::MakeFigure, and as data::TraceReader for
  // the other trace.
  std::shared_ptr<const analysis::Figure> Make(const std::shared_ptr<OpenedTrace>& trace,
                                               const ui::FigureDrawing& drawing,
                                               const std::function<void(double share)>& progress,
                                               const std::stop_token& stop);

 private:
  std::mutex mutex_;
  // What the last one was made of, and of which trace.
  ui::FigureDrawing made_of_;
  std::weak_ptr<OpenedTrace> trace_;
  std::shared_ptr<const analysis::Figure> figure_;
};

// Throws UsageError where not even the largest of a few pages has room for it, and without cairo.
ui::FigurePicturePtr PaintPicture(const analysis::Figure& figure, const ui::FigureDrawing& drawing,
                                  double pixels_per_point);
// By the path's extension; an existing file is replaced. Throws as the command line's `render`.
void WriteFigure(const analysis::Figure& figure, const data::TraceReader& trace, const ui::FigureDrawing& drawing,
                 const std::string& path);

}  // namespace headscope::app
