// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace headscope::data::testing {

int KeepOutcome(int outcome);
// 1 when the last input was read in full, 0 when it was refused.
int LastOutcome();

}  // namespace headscope::data::testing
