// SPDX-License-Identifier: Apache-2.0
// How large a trace will be, before anything is run. Pure.
#pragma once

#include <QString>
#include <cstdint>
#include <optional>
#include <vector>

#include "ui/workbench.h"

namespace headscope::ui {

// Entries of a list as typed ("0-3,7") that are below `limit`; empty: all of them. -1 when it is no such list.
int64_t CountChosen(const QString& list, int64_t limit);

// Token ids as typed, with commas or white space between them; nothing where one is no id, or there is none.
std::optional<std::vector<int32_t>> ParseTokenIds(const QString& list);

// What is wrong with a choice of rows as typed (base/row_selection.h), and where the prompt's length is known for
// certain, whether the prompt has them; empty when nothing is.
QString RowsProblem(const QString& rows, std::optional<int64_t> prompt_tokens);
// Recorded query rows of a prompt of `prompt_tokens` followed by `decode_tokens`, of ranges those that it has; -1 for
// what is no choice of rows.
int64_t CountRows(const QString& rows, int64_t prompt_tokens, int64_t decode_tokens);

// Bytes of Q, K, V and LSE of what the settings choose, were all layers as most are: what is shown until the workbench
// has counted them layer by layer (CaptureEstimate). -1 when a field is malformed. KV heads are counted as the chosen
// query heads need them, at most all of them.
int64_t EstimateTraceBytes(const ModelDescription& model, const CaptureSettings& settings, int64_t prompt_tokens);

// "40 s", "3 min", "2.5 h".
QString FormatSeconds(double seconds);

}  // namespace headscope::ui
