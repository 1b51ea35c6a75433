// SPDX-License-Identifier: Apache-2.0
// Sentences for the person at the terminal.
#pragma once

#include <string_view>

namespace headscope::app {

// "headscope: <sentence>" and a line end, on stderr. The sentence may quote files and arguments: whatever a terminal
// would obey is shown instead (analysis/types/printable.h), and it stays one line.
void Say(std::string_view sentence);

// What a run says that ends for want of either.
inline constexpr char kOutOfMemory[] =
    "not enough memory; close other programs, or choose fewer heads or a shorter sequence";
inline constexpr char kOutOfThreads[] =
    "the system allows no more threads; close other programs, raise the limit (ulimit -u, or the container's process "
    "limit) or use fewer threads";

}  // namespace headscope::app
