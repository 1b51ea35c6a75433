// SPDX-License-Identifier: Apache-2.0
// The shader programs of the map, GLSL 3.30. There is one for each combination of MapFeatures that is met: a software
// renderer executes both sides of a branch, and a program with all features costs three times what a plain map needs.
#pragma once

#include <string>

namespace headscope::ui {

// What is known before a pixel is drawn.
struct MapFeatures {
  bool hatch = false;       // draw only the hatching of scores that do not exist; the others do not matter then
  bool masked = false;      // the mask's share dims the colours
  bool paired = false;      // two masks: colours for who keeps a score, and the probability only as light
  bool difference = false;  // the values are signed differences, as EncodeDifferenceLog2 writes them
  bool logarithmic = true;
  friend constexpr auto operator<=>(const MapFeatures&, const MapFeatures&) = default;
};

// A rectangle as a strip of four vertices without buffers.
inline constexpr const char* kMapVertexShader = R"(#version 330 core
uniform vec4 destination;  // left, top, right, bottom in normalised device coordinates
out vec2 place;            // 0..1, from the upper left corner
void main() {
  place = vec2(float(gl_VertexID & 1), float(gl_VertexID >> 1));
  gl_Position = vec4(mix(destination.xy, destination.zw, place), 0.0, 1.0);
}
)";

// After the version and the constants of MapFeatures.
inline constexpr const char* kMapFragmentShader = R"(uniform vec2 hatch_shades;  // between the stripes, and theirs
uniform sampler2D values;   // log2 p
uniform sampler2D mask;     // share kept
uniform sampler2D palette;
uniform vec4 value_area;    // texture coordinates of the rectangle's upper left and lower right corners
uniform vec4 mask_area;
uniform bool lost;          // colours for what the mask leaves out instead
uniform sampler2D pair;     // shares kept by the first alone, by the second alone, by both
uniform vec4 pair_area;
uniform vec3 kept_by[3];
uniform bool coarse;
uniform bool stale;         // of another head: no colours
uniform vec2 range_log2;
uniform float blank_log2;
in vec2 place;
out vec4 colour;

float Stripe(float period) { return fract((gl_FragCoord.x + gl_FragCoord.y) / period); }

void main() {
  if (hatch) {
    colour = vec4(vec3(Stripe(12.0) < 0.08 ? hatch_shades.y : hatch_shades.x), 1.0);
    return;
  }
  float log2_p = texture(values, mix(value_area.xy, value_area.zw, place)).r;
  if (log2_p < blank_log2) discard;
  float side = sign(log2_p);
  if (difference) log2_p = side == 0.0 ? range_log2.x - 1.0 : abs(log2_p) - 64.0;
  float position;
  if (logarithmic) {
    position = (log2_p - range_log2.x) / (range_log2.y - range_log2.x);
  } else {
    vec2 range = exp2(range_log2);
    position = (exp2(log2_p) - range.x) / (range.y - range.x);
  }
  if (difference) position = 0.5 + 0.5 * side * clamp(position, 0.0, 1.0);
  int entry = int(clamp(position, 0.0, 1.0) * 255.0 + 0.5);
  vec3 shade = texelFetch(palette, ivec2(entry, 0), 0).rgb;
  if (masked) {
    // The square root shows a thin line of kept scores inside a large texel.
    float share = texture(mask, mix(mask_area.xy, mask_area.zw, place)).r;
    float kept = sqrt(lost ? 1.0 - share : share);
    float grey = dot(shade, vec3(0.299, 0.587, 0.114));
    shade = mix(vec3(0.10 + 0.32 * grey), shade, kept);
  }
  if (paired) {
    vec3 shares = texture(pair, mix(pair_area.xy, pair_area.zw, place)).rgb;
    vec3 weights = sqrt(shares);  // as above
    float weight = weights.r + weights.g + weights.b;
    float light = 0.55 + 0.45 * clamp(position, 0.0, 1.0);
    vec3 who = (weights.r * kept_by[0] + weights.g * kept_by[1] + weights.b * kept_by[2]) / max(weight, 1e-6);
    vec3 nobody = vec3(0.10 + 0.22 * dot(shade, vec3(0.299, 0.587, 0.114)));
    shade = mix(nobody, who * light, sqrt(min(shares.r + shares.g + shares.b, 1.0)));
  }
  if (stale) shade = vec3(0.12 + 0.25 * dot(shade, vec3(0.299, 0.587, 0.114)));
  if (coarse && Stripe(8.0) < 0.15) shade = mix(shade, vec3(0.5), 0.18);
  colour = vec4(shade, 1.0);
}
)";

inline std::string MapFragmentShader(const MapFeatures& features) {
  const auto constant = [](const char* name, bool value) {
    return std::string("const bool ") + name + (value ? " = true;\n" : " = false;\n");
  };
  return "#version 330 core\n" + constant("hatch", features.hatch) + constant("masked", features.masked) +
         constant("paired", features.paired) + constant("difference", features.difference) +
         constant("logarithmic", features.logarithmic) + kMapFragmentShader;
}

}  // namespace headscope::ui
