// SPDX-License-Identifier: Apache-2.0
// What config.json says about rotary positions, checked and with defaults filled in.
//
// The scaling stands in rope_scaling (older files, beside a top-level rope_theta) or in rope_parameters (newer ones,
// theta inside). Defaults are those of transformers' modeling_rope_utils.py, which is also what the tests compare with.
#pragma once

#include <cstdint>
#include <vector>

namespace headscope::model {

enum class RopeType : uint8_t {
  kDefault,
  kLinear,       // every frequency divided by factor
  kDynamic,      // theta grows with the sequence once that is longer than max_positions
  kYarn,         // long wavelengths divided by factor, short ones kept, a ramp between
  kLongRope,     // a factor of its own for every frequency: one set up to original_max_positions, another beyond
  kLlama3,       // as yarn, with a smooth step between two wavelengths
  kProportional  // Gemma 4's: only the shorter wavelengths of all that a whole head would have are turned
};

struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000;
  bool interleaved = false;            // pairs components 2j and 2j + 1; else j and j + rotary_dim / 2
  int32_t rotary_dim = 0;              // components of a head which are turned; head_dim unless the file says less
  int32_t first_dim = 0;               // the first of them
  int32_t turned_pairs = 0;            // proportional: of the rotary_dim / 2, the first
  double factor = 1;                   // linear, dynamic, yarn, llama3, proportional: how far positions are stretched
  double attention_factor = 1;         // yarn, longrope: on cos and sin
  double mscale_all_dim = 0;           // yarn: what DeepSeek's families put into the scale of the scores; 0: nothing
  int64_t max_positions = 0;           // dynamic
  int64_t original_max_positions = 0;  // yarn, longrope, llama3
  // llama3: wavelengths over original/low_freq_factor are stretched, those under original/high_freq_factor are not.
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  // yarn: turns over the original length at which a frequency is kept (fast) or stretched whole (slow).
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;                             // yarn: the ramp begins and ends at whole frequencies
  std::vector<double> short_factors, long_factors;  // longrope: [rotary_dim / 2]
};

}  // namespace headscope::model
