#include "statistics/classify.h"

namespace headscope::analysis {

void Classify(HeadStatistics* statistics) {
  statistics->head_class = HeadClass::kUnknown;
}

}  // namespace headscope::analysis
