// SPDX-License-Identifier: Apache-2.0
// A decode step from its formula (kernels/decode_selection.h), dense and masked: a weight for every token of the cache,
// which is 0 where nothing is kept; two passes in float64. Shares no code with the executors or the reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "float_codes.h"
#include "kernels/attention_problem.h"
#include "kernels/decode_selection.h"

namespace headscope::kernels::test {

struct DecodeOracle {
  std::vector<double> o;        // [batch, num_qo_heads, head_dim]
  std::vector<double> lse;      // [batch, num_qo_heads]
  std::vector<double> row_max;  // as lse
};

inline double ElementAt(const void* data, DType dtype, int64_t at) {
  if (dtype == DType::kFloat32) return static_cast<const float*>(data)[at];
  return FromCode(static_cast<const uint16_t*>(data)[at], dtype);
}

// Of query head `head`: the weight of every token.
inline std::vector<double> WeightsOfTokens(const AttentionProblem& p, const DecodeSelection& s, int32_t sequence,
                                           int32_t head) {
  std::vector<double> weights(static_cast<size_t>(p.seq_k), 0.0);
  const int32_t group = p.num_qo_heads / p.num_kv_heads;
  const int64_t list = int64_t{sequence} * p.num_kv_heads + head / group;
  const int64_t row = s.weight_rows == 1 ? 0 : head % group;
  for (int32_t token = 0; token < p.seq_k; ++token) {
    const int32_t page = token / s.page_size;
    for (int64_t i = s.page_begin[static_cast<size_t>(list)]; i < s.page_begin[static_cast<size_t>(list) + 1]; ++i) {
      if (s.pages[static_cast<size_t>(i)] != page) continue;
      const int64_t number = (row * static_cast<int64_t>(s.pages.size()) + i) * s.page_size + token % s.page_size;
      weights[static_cast<size_t>(token)] =
          s.weights.empty() ? 1.0 : static_cast<double>(s.weights[static_cast<size_t>(number)]);
      break;
    }
  }
  return weights;
}

// Whether the keys of list `list` that have lost components have this one.
inline bool HasComponent(const DecodeSelection& s, int64_t list, int32_t component) {
  for (int64_t i = s.component_begin[static_cast<size_t>(list)]; i < s.component_begin[static_cast<size_t>(list) + 1];
       ++i) {
    if (s.components[static_cast<size_t>(i)] == component) return true;
  }
  return false;
}

inline DecodeOracle DecodeByFormula(const AttentionProblem& p, const DecodeSelection& s) {
  DecodeOracle result;
  const double scale = p.scale != 0 ? static_cast<double>(p.scale) : std::pow(static_cast<double>(p.head_dim), -0.5);
  const auto cap = static_cast<double>(p.soft_cap);
  for (int32_t sequence = 0; sequence < p.batch; ++sequence) {
    for (int32_t head = 0; head < p.num_qo_heads; ++head) {
      const int32_t kv_head = head / (p.num_qo_heads / p.num_kv_heads);
      const std::vector<double> weights = WeightsOfTokens(p, s, sequence, head);
      std::vector<double> scores(weights.size());
      double most = -std::numeric_limits<double>::infinity();
      for (int32_t token = 0; token < p.seq_k; ++token) {
        double dot = 0;
        for (int32_t d = 0; d < p.head_dim; ++d) {
          if (token < s.components_end && !HasComponent(s, int64_t{sequence} * p.num_kv_heads + kv_head, d)) continue;
          dot += ElementAt(p.q.data, p.dtype, sequence * p.q.batch_stride + head * p.q.head_stride + d) *
                 ElementAt(p.k.data, p.dtype,
                           sequence * p.k.batch_stride + kv_head * p.k.head_stride + token * p.k.row_stride + d);
        }
        dot *= scale;
        scores[static_cast<size_t>(token)] = cap > 0 ? cap * std::tanh(dot / cap) : dot;
        if (weights[static_cast<size_t>(token)] > 0) most = std::max(most, scores[static_cast<size_t>(token)]);
      }
      double sum = 0;
      std::vector<double> o(static_cast<size_t>(p.head_dim), 0.0);
      for (int32_t token = 0; token < p.seq_k; ++token) {
        const auto t = static_cast<size_t>(token);
        if (weights[t] == 0) continue;
        const double share = weights[t] * std::exp(scores[t] - most);
        sum += share;
        for (int32_t d = 0; d < p.head_dim; ++d) {
          o[static_cast<size_t>(d)] +=
              share * ElementAt(p.v.data, p.dtype,
                                sequence * p.v.batch_stride + kv_head * p.v.head_stride + token * p.v.row_stride + d);
        }
      }
      const size_t row =
          static_cast<size_t>(sequence) * static_cast<size_t>(p.num_qo_heads) + static_cast<size_t>(head);
      const double alpha = s.alpha.empty() ? 1.0 : static_cast<double>(s.alpha[row]);
      const size_t mean =
          (static_cast<size_t>(sequence) * static_cast<size_t>(p.num_kv_heads) + static_cast<size_t>(kv_head)) *
          o.size();
      for (size_t d = 0; d < o.size(); ++d) {
        double value = sum > 0 ? alpha * o[d] / sum : 0.0;
        if (!s.alpha.empty()) value += (1 - alpha) * static_cast<double>(s.mean_value[mean + d]);
        result.o.push_back(value);
      }
      result.row_max.push_back(most);
      result.lse.push_back(sum > 0 ? most + std::log(sum) : -std::numeric_limits<double>::infinity());
    }
  }
  return result;
}

}  // namespace headscope::kernels::test
