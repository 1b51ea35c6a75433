// SPDX-License-Identifier: Apache-2.0
// What figures of several traces are told apart and filled by: the traces' names, and which measured run is of which.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analysis/figures.h"

namespace headscope::app {

// Each trace's file name without its ending; where several are the same, with as many of its folders as tell them
// apart: "long/trace". One path given twice gets a number.
std::vector<std::string> NamesOfTraces(const std::vector<std::string>& paths);

// Gives each of a file's runs to the trace that its origin names, wherever that is in the list; one that names a trace
// in another folder, to the only trace of that file name and model. Runs of an older file, which name none, are of the
// trace in the file's own place, if their rows are that trace's. How many are of none of the traces.
size_t AssignRuns(std::vector<analysis::MethodResult> runs, size_t place_of_file,
                  std::vector<analysis::FigureTrace>* traces);

}  // namespace headscope::app
