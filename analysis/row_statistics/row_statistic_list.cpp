// SPDX-License-Identifier: Apache-2.0
#include "row_statistic_list.h"

namespace headscope::analysis {

const std::vector<const RowStatistic*>& RowStatistics() {
#define HEADSCOPE_ADDRESS(name) &name(),
  static const std::vector<const RowStatistic*> statistics = {HEADSCOPE_ROW_STATISTICS(HEADSCOPE_ADDRESS)};
#undef HEADSCOPE_ADDRESS
  return statistics;
}

}  // namespace headscope::analysis
