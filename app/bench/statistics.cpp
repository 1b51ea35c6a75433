#include "bench/statistics.h"

#include <algorithm>
#include <cmath>

namespace headscope::app::bench {
namespace {

double Median(std::vector<double>* values) {
  std::sort(values->begin(), values->end());
  const size_t middle = values->size() / 2;
  if (values->size() % 2 == 1) return (*values)[middle];
  return ((*values)[middle - 1] + (*values)[middle]) / 2;
}

}  // namespace

Figure Summarize(std::vector<double> values) {
  if (values.empty()) return {};
  Figure figure;
  figure.repeats = static_cast<int>(values.size());
  figure.median = Median(&values);
  for (double& value : values) value = std::abs(value - figure.median);
  figure.mad = Median(&values);
  return figure;
}

}  // namespace headscope::app::bench
