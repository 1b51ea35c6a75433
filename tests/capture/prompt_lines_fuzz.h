// SPDX-License-Identifier: Apache-2.0
// A file of prompts of any bytes: accepted or refused in a sentence, in libFuzzer's shape.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headscope::capture {

// 0: accepted, 1: refused. Aborts when a prompt that is accepted is none, or its name leads out of its folder.
int FuzzPromptLines(const uint8_t* data, size_t size);

}  // namespace headscope::capture
