// SPDX-License-Identifier: Apache-2.0
// Cuts a part out of a trace: as a smaller trace, or as text for other programs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/csv_origin.h"
#include "data/trace_reader.h"
#include "data/trace_writer.h"

namespace headscope::data {

// The part to export. Layers and heads are the model's numbers; an empty list means all that the trace holds. A head is
// taken from each layer that has it; a layer that is named must have one of them.
struct ExportSelection {
  std::vector<int32_t> layers = {};
  std::vector<int32_t> qo_heads = {};  // the KV heads that they read come along
  int64_t first_token = 0;             // tokens [first_token, end_token) of the trace
  int64_t end_token = -1;              // -1: to the end
};

// How ExportTrace stores what it cuts out.
struct ExportStorage {
  // Of q, k, v and other vectors; none: as the trace has them. Numbers go to the nearest one that there is; lse and
  // norms stay fp32, and lse stays that of the model's own numbers.
  std::optional<ElementType> encoding = {};
  TraceStorage storage = TraceStorage::kPlain;
  int32_t num_files = 1;  // with more, they are named for the path (trace_files.h)
};

// Called now and then with the share done, 0 to 1.
using ExportProgress = std::function<void(double)>;

// All three create `path`, or its files, none of which may exist, and throw UsageError when the selection asks for what
// the trace does not hold, BadInputError where that has no token to export, FailedError for what cannot be written,
// CancelledError when `stop` was requested; whatever ended them, the unfinished file is removed. Memory use: a bounded
// part of the vectors, and some bytes a token.

// A complete trace of the part, read again when it is written and compared with the source: every vector, number and
// token. FailedError where any differs, and where a finite number is too large for the encoding. Token positions start
// at 0 again; TraceLayout::first_token tells where they were, and the log-sum-exp of every row stays the one of the
// full context, over the keys that /attention/lse_keys counts.
void ExportTrace(const TraceReader& trace, const ExportSelection& selection, const ExportStorage& storage,
                 const std::string& path, const ExportProgress& progress = {}, const std::stop_token& stop = {});

// One line per vector: tensor (q, k or v), layer, head, token (position in the cut), position (in the whole prompt),
// lse and lse_keys (of q only: the log-sum-exp, natural, over the lse_keys newest tokens up to the row's own, which are
// those that the model saw: all since position 0, or a window of them; the cut need not hold them), d0 ...
// d<N - 1>, where N is the longest vector of any layer and shorter ones leave their last cells empty. Numbers read
// back exactly as fp32.
void ExportCsv(const TraceReader& trace, const ExportSelection& selection, const CsvOrigin& origin,
               const std::string& path, const ExportProgress& progress = {}, const std::stop_token& stop = {});

// {"format": "headscope-export", "version": 1, "model": {..} (model_json.h), "encoding" (how the trace stores q, k and
// v: float32, bfloat16 or float16), "softmax_scale" (null where layers differ), "layers" (their facts: model_json.h),
// "first_token", "tokens": [{"id", "text"}], "heads": [{"tensor", "layer", "head", "values": [[..], ..], "tokens":
// [..], "lse": [..], "lse_keys": [..]}]}; lse and lse_keys of q only, as in CSV; first_token + an entry of the heads'
// "tokens" is the position. Bytes of a token that are no valid UTF-8 appear as U+FFFD, numbers that are not finite as
// null.
void ExportJson(const TraceReader& trace, const ExportSelection& selection, const std::string& path,
                const ExportProgress& progress = {}, const std::stop_token& stop = {});

}  // namespace headscope::data
