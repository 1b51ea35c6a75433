// SPDX-License-Identifier: Apache-2.0
// A tuning over many heads, as far as it has come, in the form in which it lies with its trace: what was asked, of
// which heads, and what was found. All that a sweep needs to go on where it stopped, and an export to write the same
// file.
#pragma once

#include <QJsonArray>
#include <QJsonObject>
#include <QString>
#include <optional>
#include <vector>

#include "ui/workbench.h"

namespace headscope::ui {

struct KeptTuning {
  TuneSettings settings;
  std::vector<analysis::HeadId> chosen;  // heads that are to be tuned, in the trace's order
  std::vector<TunedSetting> found;       // of all lengths
  std::vector<FailedHead> failed;

  // Of `found`: heads that have their setting for prompts as long as the trace's.
  size_t NumTuned() const;

  // Nothing for what is no tuning of this trace, or one that these methods and this workbench could not have made:
  // files are untrusted. `why` is then a clause, and `lacks_method` (may be null) whether a method that is not here is
  // all that is known to be in the way: once its file is read the tuning may be one.
  static std::optional<KeptTuning> FromJson(const QJsonObject& json, const TraceSummary& trace,
                                            const std::vector<kernels::MethodSpec>& methods, const Workbench& workbench,
                                            QString* why, bool* lacks_method = nullptr);
};

// "SampleAttention", or "The best of 3 methods".
QString TuningTitle(const TuneSettings& settings, const std::vector<kernels::MethodSpec>& methods);

// The parts of a kept tuning. A setting is made into JSON once, when it is found: a tuning is written every few
// seconds, and thousands of heads take a tenth of a second.
QJsonObject FoundAsJson(const TunedSetting& found, const TuneSettings& settings,
                        const std::vector<kernels::MethodSpec>& methods);
QJsonObject TuningAsJson(const TuneSettings& settings, const std::vector<kernels::MethodSpec>& methods,
                         const std::vector<analysis::HeadId>& chosen, const QJsonArray& found,
                         const std::vector<FailedHead>& failed);

}  // namespace headscope::ui
