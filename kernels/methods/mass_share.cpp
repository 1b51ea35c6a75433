// SPDX-License-Identifier: Apache-2.0
#include "mass_share.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "top_k.h"

namespace headscope::kernels::internal {

namespace {

// The largest first, equal ones by lower place: as whole numbers, which sort faster than by looking masses up.
void SortByMass(const std::vector<float>& mass, std::vector<int32_t>* places) {
  constexpr uint32_t kSign = 0x80000000u;
  std::vector<uint64_t> keys;
  keys.reserve(places->size());
  for (const int32_t place : *places) {
    const auto bits = std::bit_cast<uint32_t>(mass[static_cast<size_t>(place)] + 0.0f);  // -0 is 0
    const uint32_t ascending = (bits & kSign) != 0 ? ~bits : bits | kSign;
    keys.push_back(uint64_t{~ascending} << 32 | static_cast<uint32_t>(place));
  }
  std::ranges::sort(keys);
  std::ranges::transform(keys, places->begin(), [](uint64_t key) { return static_cast<int32_t>(key & 0xffffffffu); });
}

}  // namespace

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
  constexpr size_t kFirst = 256;
  std::vector<float> finite = mass;
  for (float& one : finite) one = std::isfinite(one) ? one : 0.0f;
  const double total = std::accumulate(finite.begin(), finite.end(), 0.0);
  const size_t least = std::min(static_cast<size_t>(minimum), mass.size());
  // A share is mostly that of few: so many are ranked, and more where these are not enough.
  for (size_t ranked = std::max(kFirst, least);; ranked *= 8) {
    std::vector<int32_t> best;
    if (ranked < finite.size()) {
      best = TopK(finite, static_cast<int64_t>(ranked));
    } else {
      best.resize(finite.size());
      std::iota(best.begin(), best.end(), 0);
    }
    SortByMass(finite, &best);
    size_t count = 0;
    for (double before = 0; count < best.size() && (share >= 1.0 || before < share * total); ++count)
      before += static_cast<double>(finite[static_cast<size_t>(best[count])]);
    if (count == best.size() && best.size() < mass.size()) continue;
    best.resize(std::max(count, least));
    std::ranges::sort(best);
    return best;
  }
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
