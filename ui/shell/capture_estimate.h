// SPDX-License-Identifier: Apache-2.0
// How large a trace will be, before anything is run. Pure.
#pragma once

#include <QString>
#include <cstdint>

#include "ui/workbench.h"

namespace headscope::ui {

// Entries of a list as typed ("0-3,7") that are below `limit`; empty: all of them. -1 when it is no such list.
int64_t CountChosen(const QString& list, int64_t limit);

// Recorded query rows of a prompt of `prompt_tokens` followed by `decode_tokens`, for "all", "last:N", "every:N",
// "random:N" or "random:N:SEED"; -1 for anything else.
int64_t CountRows(const QString& rows, int64_t prompt_tokens, int64_t decode_tokens);

// Bytes of Q, K, V and LSE of what the settings choose; -1 when a field is malformed. KV heads are counted as the
// chosen query heads need them, at most all of them.
int64_t EstimateTraceBytes(const ModelDescription& model, const CaptureSettings& settings, int64_t prompt_tokens);

// "40 s", "3 min", "2.5 h".
QString FormatSeconds(double seconds);

}  // namespace headscope::ui
