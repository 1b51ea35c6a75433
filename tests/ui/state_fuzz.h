// SPDX-License-Identifier: Apache-2.0
// What the window remembers, of any bytes: its session, and the file beside a trace. In libFuzzer's shape.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headscope::ui {

// 0: something is taken over, 1: nothing is. Aborts where a note lies outside its trace, an entry comes twice, or a
// session changes by being written and read.
int FuzzState(const uint8_t* data, size_t size);

}  // namespace headscope::ui
