// SPDX-License-Identifier: Apache-2.0
// A statistic of a whole head as an extension adds it: how long its keys are.
#include <cmath>
#include <limits>

#include "whole_head/head_statistic_list.h"

namespace headscope::analysis {
namespace {

class KeyLengthStatistic : public HeadStatistic {
 public:
  const MetricInfo& info() const override {
    static const MetricInfo info = {"mean_key_length", "Length of keys", "", "|k|, mean over tokens"};
    return info;
  }
  double OfHead(const HeadView& head) const override {
    double sum = 0;
    for (int64_t token = 0; token < head.num_tokens; ++token) {
      double squares = 0;
      for (const float value :
           head.k.subspan(static_cast<size_t>(token * head.head_dim), static_cast<size_t>(head.head_dim)))
        squares += static_cast<double>(value) * static_cast<double>(value);
      sum += std::sqrt(squares);
    }
    return head.num_tokens == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(head.num_tokens);
  }
};

}  // namespace

const HeadStatistic& MeanKeyLength() {
  static const KeyLengthStatistic statistic;
  return statistic;
}

}  // namespace headscope::analysis
