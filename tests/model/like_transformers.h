// SPDX-License-Identifier: Apache-2.0
// Logits and text of a checkpoint beside those that tests/oracle/model_logits.py wrote.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "base/device.h"
#include "checkpoint_files.h"
#include "model/model_session.h"

namespace headscope::model {

inline double RelativeError(const std::vector<float>& got, const std::vector<float>& want) {
  EXPECT_EQ(got.size(), want.size());
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    error += std::pow(static_cast<double>(got[i]) - want[i], 2);
    norm += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(error / norm);
}

inline void ExpectLikeTransformers(const std::string& model_dir, const std::string& expected_dir, size_t prompt_tokens,
                                   int32_t num_threads = 0) {
  const auto tokens = ReadArray<int32_t>(expected_dir + "/tokens.i32");
  const auto logits = ReadArray<float>(expected_dir + "/logits.f32");
  const auto greedy = ReadArray<int32_t>(expected_dir + "/greedy.i32");
  ASSERT_FALSE(logits.empty());
  // A chunk that divides nothing crosses the seam between past and diagonal; one chunk has no past at all.
  for (const int32_t chunk : {1024, 37}) {
    SessionOptions options{
        .dtype = ElementType::kFloat32, .device = kCpu, .chunk_tokens = chunk, .num_threads = num_threads};
    ModelSession session(model_dir, options);
    EXPECT_LE(RelativeError(session.FeedAllLogits(tokens), logits), 1e-5) << "chunk " << chunk;
    session.Reset();
    session.Feed(std::span(tokens).first(prompt_tokens));
    EXPECT_EQ(session.Generate(static_cast<int64_t>(greedy.size())), greedy) << "chunk " << chunk;
  }
}

}  // namespace headscope::model
