// SPDX-License-Identifier: Apache-2.0
#include "metric_histogram.h"

#include <QStringList>
#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace headscope::ui {

MetricHistogram MakeHistogram(const std::vector<double>& values, size_t most_bins) {
  std::vector<double> known;
  std::copy_if(values.begin(), values.end(), std::back_inserter(known),
               [](double value) { return std::isfinite(value); });
  MetricHistogram histogram;
  if (known.empty()) return histogram;
  std::sort(known.begin(), known.end());
  histogram.begin = known.front();
  histogram.end = known.back();
  const size_t half = known.size() / 2;
  histogram.median = known.size() % 2 == 1 ? known[half] : (known[half - 1] + known[half]) / 2;
  histogram.mean = std::accumulate(known.begin(), known.end(), 0.0) / static_cast<double>(known.size());
  const double width = histogram.end - histogram.begin;
  histogram.counts.assign(width > 0 ? most_bins : 1, 0);
  const auto last = static_cast<double>(histogram.counts.size() - 1);
  for (const double value : known) {
    const double place =
        width > 0 ? (value - histogram.begin) / width * static_cast<double>(histogram.counts.size()) : 0;
    ++histogram.counts[static_cast<size_t>(std::clamp(std::floor(place), 0.0, last))];
  }
  histogram.most = *std::max_element(histogram.counts.begin(), histogram.counts.end());
  return histogram;
}

double BarShare(int count, int most) {
  return most <= 0 ? 0 : std::log1p(count) / std::log1p(most);
}

std::vector<int> CountTicks(int most, double least) {
  std::vector<int> ticks;
  if (most <= 0) return ticks;
  double below = -1;
  for (int64_t power = 1; power < most; power *= 10) {
    for (const int64_t count : {power, 2 * power, 5 * power}) {
      if (count >= most) break;
      const double share = BarShare(static_cast<int>(count), most);
      if (share - below < least || 1 - share < least) continue;
      ticks.push_back(static_cast<int>(count));
      below = share;
    }
  }
  ticks.push_back(most);
  return ticks;
}

QString FilterOfBins(const std::string& metric, const MetricHistogram& histogram, size_t first, size_t last) {
  const QString name = QString::fromStdString(metric);
  QStringList words;
  if (first > 0) words.append(QStringLiteral("%1>=%2").arg(name).arg(histogram.EdgeOf(first), 0, 'g', 9));
  if (last + 1 < histogram.counts.size())
    words.append(QStringLiteral("%1<%2").arg(name).arg(histogram.EdgeOf(last + 1), 0, 'g', 9));
  return words.join(u' ');
}

}  // namespace headscope::ui
