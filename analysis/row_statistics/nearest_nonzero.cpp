// SPDX-License-Identifier: Apache-2.0
// Whether a row's weight lies in clusters: how far its non-zero entries are from each other (MInference, figure 3b).
#include <algorithm>
#include <limits>

#include "row_statistic_list.h"

namespace headscope::analysis {
namespace {

constexpr float kNonzero = 1e-3f;  // the paper names no threshold
constexpr size_t kNearest = 10;

class NearestNonzeroStatistic : public RowStatistic {
 public:
  const MetricInfo& info() const override {
    static const MetricInfo info = {
        "nearest_nonzero",
        "Nearest non-zero distance",
        "tokens",
        "mean distance from a row's entries of at least 0.001 to their 10 nearest, in tokens; mean over rows",
        false,
        0,
        0};
    return info;
  }
  bool reads_probabilities() const override { return true; }
  bool samples_rows() const override { return true; }

  double OfRow(const RowView& row) const override {
    std::vector<int64_t> places;
    for (size_t i = 0; i < row.p.size(); ++i) {
      if (row.p[i] >= kNonzero) places.push_back(static_cast<int64_t>(i));
    }
    if (places.size() < 2) return std::numeric_limits<double>::quiet_NaN();
    const size_t nearest = std::min(kNearest, places.size() - 1);
    double sum = 0;
    for (size_t i = 0; i < places.size(); ++i) {
      size_t left = i, right = i;  // the nearest lie in places[left, right]
      while (right - left < nearest) {
        const bool goes_left =
            left > 0 && (right + 1 == places.size() || places[i] - places[left - 1] <= places[right + 1] - places[i]);
        sum += static_cast<double>(goes_left ? places[i] - places[--left] : places[++right] - places[i]);
      }
    }
    return sum / static_cast<double>(places.size() * nearest);
  }
};

}  // namespace

const RowStatistic& NearestNonzero() {
  static const NearestNonzeroStatistic statistic;
  return statistic;
}

}  // namespace headscope::analysis
