// SPDX-License-Identifier: Apache-2.0
// The colours of what is no value on a map: one list for the window and for pictures of it.
#pragma once

#include "analysis/types/color_map.h"

namespace headscope::analysis {

struct Ground {
  Rgb paper;          // around the map
  Rgb ink;            // what is written on it
  Rgb no_pairs;       // where there are no scores: right of the diagonal, or outside the model's window
  Rgb hatch, stripe;  // the same where it is hatched
  Rgb mass, kept;     // beside the map: what a query spends or a key receives, and what a method keeps of it
  Rgb answer;         // a task's answer along the axes
  Rgb attended;       // keys that a decode step sees, in its lane below the map
};
inline constexpr Ground kDarkGround = {{23, 23, 23},    {214, 214, 214}, {44, 44, 48},   {32, 32, 32}, {43, 43, 43},
                                       {123, 123, 131}, {96, 190, 255},  {255, 168, 72}, {44, 44, 50}};
inline constexpr Ground kLightGround = {{255, 255, 255}, {24, 24, 28},    {232, 232, 236},
                                        {244, 244, 244}, {214, 214, 214}, {140, 140, 150},
                                        {0, 98, 190},    {176, 92, 0},    {226, 226, 230}};

}  // namespace headscope::analysis
