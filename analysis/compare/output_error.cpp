// SPDX-License-Identifier: Apache-2.0
#include "compare/output_error.h"

#include <cmath>

namespace headscope::analysis {

OutputError MeasureError(const float* o, const float* reference, int64_t num_rows, int32_t head_dim) {
  OutputError error;
  if (num_rows == 0) return error;
  double difference_square = 0, reference_square = 0, cosines = 0;
  for (int64_t row = 0; row < num_rows; ++row) {
    double dot = 0, own = 0, other = 0;
    for (int64_t i = row * head_dim; i < (row + 1) * head_dim; ++i) {
      const auto a = static_cast<double>(o[i]);
      const auto b = static_cast<double>(reference[i]);
      dot += a * b;
      own += a * a;
      other += b * b;
      difference_square += (a - b) * (a - b);
      const double difference = std::fabs(a - b);
      if (difference > error.maximum || std::isnan(difference)) error.maximum = difference;  // a NaN stays
    }
    reference_square += other;
    if (own == 0 && other == 0) {
      cosines += 1;
    } else if (own * other != 0) {  // also for a NaN
      cosines += dot / std::sqrt(own * other);
    }
  }
  if (difference_square != 0) error.relative = std::sqrt(difference_square / reference_square);
  error.cosine = cosines / static_cast<double>(num_rows);
  return error;
}

}  // namespace headscope::analysis
