// SPDX-License-Identifier: Apache-2.0
#include "mass_share.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "top_k.h"

namespace headscope::kernels::internal {

size_t RankedMass::Count(double share) const {
  size_t count = 0;
  while (count < ranking.size() && Keeps(count, share)) ++count;
  return count;
}

RankedMass RankMass(std::vector<float> mass) {
  for (float& one : mass) one = std::isfinite(one) ? one : 0.0f;
  RankedMass ranked;
  ranked.ranking = Ranking(mass);
  ranked.total = std::accumulate(mass.begin(), mass.end(), 0.0);
  ranked.before.reserve(mass.size());
  double reached = 0;
  for (const int32_t place : ranked.ranking) {
    ranked.before.push_back(reached);
    reached += static_cast<double>(mass[static_cast<size_t>(place)]);
  }
  return ranked;
}

std::vector<int32_t> TopShare(const std::vector<float>& mass, double share, int64_t minimum) {
  RankedMass ranked = RankMass(mass);
  const size_t least = std::min(static_cast<size_t>(minimum), mass.size());
  ranked.ranking.resize(std::max(ranked.Count(share), least));
  std::sort(ranked.ranking.begin(), ranked.ranking.end());
  return ranked.ranking;
}

std::vector<float> StripeSums(std::span<const float> lines, int32_t size) {
  const auto width = static_cast<size_t>(size);
  std::vector<float> stripes((lines.size() + width - 1) / width);
  for (size_t stripe = 0; stripe < stripes.size(); ++stripe) {
    const std::span<const float> of_stripe =
        lines.subspan(stripe * width, std::min(width, lines.size() - stripe * width));
    stripes[stripe] = static_cast<float>(std::accumulate(of_stripe.begin(), of_stripe.end(), 0.0));
  }
  return stripes;
}

}  // namespace headscope::kernels::internal
