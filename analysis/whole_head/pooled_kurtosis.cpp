// SPDX-License-Identifier: Apache-2.0
// Tails of q's components over all rows at once (SparQ Attention, figure 4d), beside those of a Gaussian with the same
// mean and covariance: components of different size are heavy-tailed when pooled even where each is normal, and only
// what exceeds that is the head's own.
#include <limits>

#include "component_means.h"
#include "head_statistic_list.h"

namespace headscope::analysis {
namespace {

constexpr double kNoKurtosis = std::numeric_limits<double>::quiet_NaN();

// m4 / m2^2 - 3 of all components of all rows (biased).
double Pooled(std::span<const float> q, int32_t head_dim) {
  if (q.empty()) return kNoKurtosis;
  const double mean = MeanOf(ComponentMeans(q, static_cast<size_t>(head_dim)));
  double second = 0, fourth = 0;
  for (const float value : q) {
    const double square = (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
    second += square;
    fourth += square * square;
  }
  return second == 0 ? kNoKurtosis : fourth * static_cast<double>(q.size()) / (second * second) - 3;
}

// The same of a Gaussian with q's mean and covariance, in closed form. Pooled moments need the variances alone: of a
// component that lies d from the common mean and has variance s, the fourth moment about it is 3 s^2 + 6 s d^2 + d^4.
double OfGaussian(std::span<const float> q, int32_t head_dim) {
  if (q.empty()) return kNoKurtosis;
  const auto dim = static_cast<size_t>(head_dim);
  const std::vector<double> means = ComponentMeans(q, dim);
  // Biased.
  const std::vector<double> variances =
      MeansOverRows(q, dim, [&](double value, size_t i) { return (value - means[i]) * (value - means[i]); });
  const double mean = MeanOf(means);
  double second = 0, fourth = 0;
  for (size_t i = 0; i < dim; ++i) {
    const double off = (means[i] - mean) * (means[i] - mean), spread = variances[i];
    second += (spread + off) / head_dim;
    fourth += (3 * spread * spread + 6 * spread * off + off * off) / head_dim;
  }
  return second == 0 ? kNoKurtosis : fourth / (second * second) - 3;
}

class KurtosisStatistic : public HeadStatistic {
 public:
  KurtosisStatistic(MetricInfo info, std::span<const float> HeadView::*queries,
                    double (*of)(std::span<const float>, int32_t))
      : info_(std::move(info)), queries_(queries), of_(of) {}
  const MetricInfo& info() const override { return info_; }
  double OfHead(const HeadView& head) const override { return of_(head.*queries_, head.head_dim); }

 private:
  const MetricInfo info_;
  std::span<const float> HeadView::*queries_;
  double (*of_)(std::span<const float>, int32_t);
};

}  // namespace

const HeadStatistic& PooledKurtosis() {
  static const KurtosisStatistic statistic({"kurtosis_pooled", "Kurtosis of q, pooled", "",
                                            "excess (Fisher) kurtosis of q's components over all rows", true, 0, 0},
                                           &HeadView::q, Pooled);
  return statistic;
}

const HeadStatistic& GaussianKurtosis() {
  static const KurtosisStatistic statistic(
      {"kurtosis_gaussian", "Kurtosis, Gaussian q", "",
       "the pooled kurtosis that a Gaussian q of the same mean and covariance has", true, 0, 0},
      &HeadView::q, OfGaussian);
  return statistic;
}

const HeadStatistic& PooledKurtosisPreRope() {
  static const KurtosisStatistic statistic(
      {"kurtosis_pooled_pre_rope", "Kurtosis of q, pooled, before RoPE", "",
       "excess (Fisher) kurtosis of the components of q before RoPE over all rows; only in traces that record it", true,
       0, 0},
      &HeadView::q_pre_rope, Pooled);
  return statistic;
}

const HeadStatistic& GaussianKurtosisPreRope() {
  static const KurtosisStatistic statistic(
      {"kurtosis_gaussian_pre_rope", "Kurtosis, Gaussian q, before RoPE", "",
       "the pooled kurtosis that a Gaussian of the mean and covariance of q before RoPE has", true, 0, 0},
      &HeadView::q_pre_rope, OfGaussian);
  return statistic;
}

}  // namespace headscope::analysis
