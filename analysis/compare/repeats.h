// The repeats of one timed stretch: a first one that warms up, then CompareOptions::repeats of them, and more while
// they have not taken CompareOptions::least_ms together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "analysis/compare.h"

namespace headscope::analysis {

class Repeats {
 public:
  Repeats(const CompareOptions& options, std::string_view method, std::string_view stage)
      : options_(options), method_(method), stage_(stage) {}

  // Whether another one is to be run; if so, reports it, outside the times.
  bool Begin() {
    const bool enough = begun_ > options_.repeats && (total_ms_ >= options_.least_ms || begun_ > kMostRepeats);
    if (enough) return false;
    options_.Report({method_, stage_, begun_, std::max(begun_, options_.repeats)});
    ++begun_;
    return true;
  }
  bool is_warm_up() const { return begun_ == 1; }
  // What the repeat under way took.
  void Took(double milliseconds) {
    if (!is_warm_up()) total_ms_ += milliseconds;
  }

 private:
  // A stretch of microseconds has a firm median long before its repeats have taken any time worth the name.
  static constexpr int32_t kMostRepeats = 500;

  const CompareOptions& options_;
  const std::string_view method_, stage_;
  int32_t begun_ = 0;
  double total_ms_ = 0;
};

}  // namespace headscope::analysis
