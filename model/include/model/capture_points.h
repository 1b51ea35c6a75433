// SPDX-License-Identifier: Apache-2.0
// What a layer can hand over beside the q, k, v and lse of its attention: one line each. The switches over CapturePoint
// (network/decoder_attention.cpp makes the numbers, capture/ records them) miss a case where a new line has none, which
// does not compile.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

// name, as typed, help
#define HEADSCOPE_CAPTURE_POINTS(POINT)                                                                \
  POINT(kPreRope, "pre-rope", "q and k before RoPE")                                                   \
  POINT(kValueNorms, "value-norms", "|W_o v| of every query head and token: how much a value can add") \
  POINT(kHiddenNorms, "hidden-norms", "the norm of every token's hidden state as the layer gets it")   \
  POINT(kProjection, "projection", "q and k as projected, before their norm")                          \
  POINT(kCache, "cache", "k and v as the cache holds them after the pass")                             \
  POINT(kResidual, "residual", "every token's hidden state as the layer gets it")                      \
  POINT(kHeadOutputs, "head-outputs", "every query head's part of the output projection's input")      \
  POINT(kValueNormsL1, "value-norms-l1", "value-norms as sums of absolute values, CriticalKV's")

namespace headscope::model {

#define HEADSCOPE_NAME(name, text, help) name,
enum class CapturePoint : uint8_t { HEADSCOPE_CAPTURE_POINTS(HEADSCOPE_NAME) };
#undef HEADSCOPE_NAME

struct CapturePointInfo {
  CapturePoint point;
  std::string_view name;  // as typed
  std::string_view help;
};

#define HEADSCOPE_INFO(name, text, help) CapturePointInfo{CapturePoint::name, text, help},
inline constexpr std::array kCapturePoints = {HEADSCOPE_CAPTURE_POINTS(HEADSCOPE_INFO)};
#undef HEADSCOPE_INFO

}  // namespace headscope::model
