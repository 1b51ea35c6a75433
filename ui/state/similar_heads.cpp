// SPDX-License-Identifier: Apache-2.0
#include "similar_heads.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace headscope::ui {
namespace {

double Overlap(const std::vector<float>& p, const std::vector<float>& q) {
  const double all = std::accumulate(p.begin(), p.end(), 0.0) * std::accumulate(q.begin(), q.end(), 0.0);
  if (!(all > 0)) return 0;
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += std::sqrt(double{p[i]} * double{q[i]});
  return std::min(1.0, sum / std::sqrt(all));
}

}  // namespace

double PatternLikeness(const analysis::HeadStatistics& a, const analysis::HeadStatistics& b) {
  if (a.column_profile.size() != b.column_profile.size() || a.diagonal_profile.size() != b.diagonal_profile.size() ||
      a.num_tokens != b.num_tokens)
    return std::numeric_limits<double>::quiet_NaN();
  return Overlap(a.column_profile, b.column_profile) * Overlap(a.diagonal_profile, b.diagonal_profile);
}

}  // namespace headscope::ui
