// SPDX-License-Identifier: Apache-2.0
// Two masks of one head, compared: what the first keeps alone, what the second keeps alone, and what both keep.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/types/color_map.h"
#include "analysis/types/tile.h"

namespace headscope::analysis {

// In the order in which tiles and colours have them.
enum class KeptBy : uint8_t { kFirstAlone = 0, kSecondAlone = 1, kBoth = 2 };
inline constexpr size_t kNumKeptBy = 3;

// Okabe and Ito's orange, sky blue and bluish green: apart for colour-blind eyes, and in grey from what nobody keeps.
inline constexpr std::array<Rgb, kNumKeptBy> kKeptByColors = {Rgb{230, 159, 0}, Rgb{86, 180, 233}, Rgb{0, 158, 115}};
// Beside each colour, where a legend has no room for the methods' names.
inline constexpr std::array<const char*, kNumKeptBy> kKeptByNames = {"1 only", "2 only", "both"};

// Attended pairs of the rows that both masks are about.
struct MaskOverlap {
  int64_t first_alone = 0, second_alone = 0, both = 0;
  int64_t pairs = 0;  // all of them, kept or not

  int64_t first() const { return first_alone + both; }
  int64_t second() const { return second_alone + both; }
  // What both keep by what either keeps; 1 where neither keeps anything.
  double Jaccard() const {
    const int64_t either = first_alone + second_alone + both;
    return either == 0 ? 1 : static_cast<double>(both) / static_cast<double>(either);
  }
};

// The same on the grid of a tile: shares of a texel's attended pairs, 0..255, as MaskTile has them.
struct MaskPairTile {
  TileKey key;
  std::vector<uint8_t> kept;  // [256, 256, kNumKeptBy]
};
using MaskPairTilePtr = std::shared_ptr<const MaskPairTile>;

}  // namespace headscope::analysis
