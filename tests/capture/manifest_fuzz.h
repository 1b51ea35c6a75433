// SPDX-License-Identifier: Apache-2.0
// A manifest of captures of any bytes: taken up or refused in a sentence, in libFuzzer's shape.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headscope::capture {

// 0: accepted, 1: refused. Aborts where what was taken up is not written again as a manifest.
int FuzzManifest(const uint8_t* data, size_t size);

}  // namespace headscope::capture
