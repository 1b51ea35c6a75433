// SPDX-License-Identifier: Apache-2.0
// A small bitmap font, so that pictures need neither a font file nor a display.
#pragma once

#include <array>
#include <cstdint>

namespace headscope::analysis {

inline constexpr int32_t kGlyphWidth = 5;
inline constexpr int32_t kGlyphHeight = 8;  // the last row lies below the base line
inline constexpr int32_t kGlyphAdvance = 6;

// Rows from the top, bit 4 the leftmost pixel. Characters without a glyph look like '?'; a space is empty.
const std::array<uint8_t, kGlyphHeight>& Glyph(char character);

}  // namespace headscope::analysis
