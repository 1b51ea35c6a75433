// SPDX-License-Identifier: Apache-2.0
// A prompt's file of any bytes: accepted or refused in a sentence, in libFuzzer's shape.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headscope::capture {

// 0: accepted, 1: refused. Aborts unless what is accepted is the very text of a UTF-8 file without a byte 0, and what
// is refused is none, for a reason that the bytes bear out.
int FuzzPromptFile(const uint8_t* data, size_t size);

}  // namespace headscope::capture
