// SPDX-License-Identifier: Apache-2.0
// A figure whose making is one function.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "analysis/figures.h"

namespace headscope::analysis {

class SimpleFigure : public FigureMaker {
 public:
  using Function = std::vector<FigurePanel> (*)(const FigureInput& input, std::string* caption);
  SimpleFigure(FigureInfo info, Function make) : info_(std::move(info)), make_(make) {}
  const FigureInfo& info() const override { return info_; }
  std::vector<FigurePanel> Make(const FigureInput& input, std::string* caption) const override {
    return make_(input, caption);
  }

 private:
  const FigureInfo info_;
  const Function make_;
};

}  // namespace headscope::analysis
