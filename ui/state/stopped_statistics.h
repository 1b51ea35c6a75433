// SPDX-License-Identifier: Apache-2.0
// What is said when the statistics of a trace's heads are stopped, by what is known of those that are left. Pure.
#pragma once

#include <QString>

#include "head_store.h"

namespace headscope::ui {

// Of the open trace.
QString StatisticsStoppedText(const HeadStore& heads);
// Of the other one, which there is; `name` is what its file is called.
QString OtherStatisticsStoppedText(const HeadStore& heads, const QString& name);

}  // namespace headscope::ui
