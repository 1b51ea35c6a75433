// The head's class from its numbers. The rule is stated in docs/analysis.md.
#pragma once

#include "analysis/types/head_statistics.h"

namespace headscope::analysis {

// Sets head_class and class_reason from the other fields.
void Classify(HeadStatistics* statistics);

}  // namespace headscope::analysis
