// SPDX-License-Identifier: Apache-2.0
// A KV head and its query heads that a model recorded, as tests/oracle/methods_kept_sets.py writes them: int32
// num_qo_heads, head_dim, tokens, then q, k and v (fp32, C order).
#pragma once

#include <cstdint>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "random_problem.h"

namespace headscope::kernels::testing {

// The recorded heads: all rows, or the last one as a decode step.
inline RandomProblem RecordedHeads(const std::string& path, bool decode) {
  std::ifstream file(path, std::ios::binary);
  int32_t sizes[3] = {};
  file.read(reinterpret_cast<char*>(sizes), sizeof(sizes));
  const auto [num_qo_heads, head_dim, tokens] = sizes;
  if (!file || num_qo_heads < 1 || head_dim < 1 || tokens < 2)
    throw std::runtime_error("cannot read the sizes in " + path);
  ProblemShape shape{
      1, num_qo_heads, 1, head_dim, decode ? 1 : tokens, tokens, decode ? tokens - 1 : 0, DType::kFloat32};
  std::mt19937 random(1);
  RandomProblem data(shape, &random);
  std::vector<float> row(static_cast<size_t>(head_dim));
  const auto read_rows = [&](OwnedTensor* tensor, int32_t heads, int32_t first) {
    for (int32_t head = 0; head < heads; ++head) {
      for (int32_t token = 0; token < tokens; ++token) {
        file.read(reinterpret_cast<char*>(row.data()), static_cast<std::streamsize>(row.size() * sizeof(float)));
        for (int32_t d = 0; d < head_dim && token >= first; ++d)
          tensor->Set(0, head, token - first, d, row[static_cast<size_t>(d)]);
      }
    }
  };
  read_rows(&data.q, num_qo_heads, decode ? tokens - 1 : 0);
  read_rows(&data.k, 1, 0);
  read_rows(&data.v, 1, 0);
  if (!file) throw std::runtime_error(path + " is too short");
  return data;
}

}  // namespace headscope::kernels::testing
