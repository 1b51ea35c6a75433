// SPDX-License-Identifier: Apache-2.0
#include "choices/head_budgets.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace headscope::app {
namespace {

constexpr int kRatios = 99;

struct Segment {
  size_t head = 0;
  double tokens = 0, slope = 0;  // how many, and the mass that each adds
};

// Of the upper concave hull from (0, 0) on, cut off at num_tokens.
void AddSegments(size_t head, const HeadCurve& curve, double num_tokens, std::vector<Segment>* segments) {
  std::vector<std::pair<double, double>> hull = {{0, 0}};
  const auto slope = [](const auto& from, const auto& to) {
    return (to.second - from.second) / (to.first - from.first);
  };
  for (size_t i = 0; i < curve.tokens.size(); ++i) {
    const std::pair point(std::min(curve.tokens[i], num_tokens), curve.mass[i]);
    if (point.first <= hull.back().first) continue;
    while (hull.size() > 1 && slope(hull[hull.size() - 2], hull.back()) <= slope(hull.back(), point)) hull.pop_back();
    hull.push_back(point);
  }
  if (hull.back().first < num_tokens) hull.emplace_back(num_tokens, hull.back().second);
  for (size_t i = 1; i < hull.size(); ++i)
    segments->push_back({head, hull[i].first - hull[i - 1].first, slope(hull[i - 1], hull[i])});
}

}  // namespace

std::vector<std::vector<double>> ShareOutTokens(const std::vector<HeadCurve>& heads, double num_tokens) {
  std::vector<Segment> segments;
  for (size_t head = 0; head < heads.size(); ++head) AddSegments(head, heads[head], num_tokens, &segments);
  // A hull's own segments fall, so they stay in their order.
  std::ranges::stable_sort(segments, std::ranges::greater(), &Segment::slope);
  std::vector<std::vector<double>> shares;
  for (int percent = 1; percent <= kRatios; ++percent) {
    double left = (100 - percent) / 100.0 * num_tokens * static_cast<double>(heads.size());
    std::vector<double> kept(heads.size(), 0.0);
    for (const Segment& segment : segments) {
      const double taken = std::min(segment.tokens, left);
      kept[segment.head] += taken;
      left -= taken;
    }
    for (double& tokens : kept) tokens = std::clamp(1 - tokens / num_tokens, 0.0, 1.0);
    shares.push_back(std::move(kept));
  }
  return shares;
}

}  // namespace headscope::app
