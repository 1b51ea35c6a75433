// SPDX-License-Identifier: Apache-2.0
// The traces that a person may begin with: one that is made when headscope is built, and two that are made when they
// are first asked for.
#pragma once

#include <string>
#include <vector>

#include "ui/workbench.h"

namespace headscope::app {

// `folder`: of those that are made here; empty: there are none. `model_dir`: the shipped model.
std::vector<ui::Example> ExampleTraces(const std::string& shipped_trace, const std::string& model_dir,
                                       const std::string& folder);

}  // namespace headscope::app
