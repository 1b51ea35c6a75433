// SPDX-License-Identifier: Apache-2.0
#include "head_statistic_list.h"

namespace headscope::analysis {

const std::vector<const HeadStatistic*>& WholeHeadStatistics() {
#define HEADSCOPE_ADDRESS(name) &name(),
  static const std::vector<const HeadStatistic*> statistics = {HEADSCOPE_HEAD_STATISTICS(HEADSCOPE_ADDRESS)};
#undef HEADSCOPE_ADDRESS
  return statistics;
}

}  // namespace headscope::analysis
