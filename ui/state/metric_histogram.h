// SPDX-License-Identifier: Apache-2.0
// How a metric is spread over the heads, and the filter words of a part of it. Pure.
#pragma once

#include <QString>
#include <cstddef>
#include <string>
#include <vector>

namespace headscope::ui {

struct MetricHistogram {
  double begin = 0, end = 0;  // of the first bin and of the last one; the last one holds its end
  std::vector<int> counts;    // bins of one width; empty: no head has a number
  double mean = 0, median = 0;
  int most = 0;  // of counts

  double EdgeOf(size_t bin) const {
    return begin + (end - begin) * static_cast<double>(bin) / static_cast<double>(counts.size());
  }
};

// Of the numbers that are finite, in at most `most_bins` bins: one bin when all are the same.
MetricHistogram MakeHistogram(const std::vector<double>& values, size_t most_bins);

// How high a bar of `count` heads is beside one of `most`, 0 to 1: by the logarithm, so that few heads are seen beside
// many.
double BarShare(int count, int most);

// Counts to write beside the bars, ascending: `most`, and of 1, 2, 5, 10, 20, .. those between which there is `least`
// of the highest bar.
std::vector<int> CountTicks(int most, double least);

// What the head filter takes for the bins first..last: "kurtosis>=1.5 kurtosis<2". A side where the bins reach the
// end is left out, so that no head is lost to rounding; all bins: empty.
QString FilterOfBins(const std::string& metric, const MetricHistogram& histogram, size_t first, size_t last);

}  // namespace headscope::ui
