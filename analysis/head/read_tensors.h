// SPDX-License-Identifier: Apache-2.0
// Tensors of one head out of a trace, as fp32.
#pragma once

#include <optional>
#include <vector>

#include "analysis/head_tensors.h"
#include "data/trace_reader.h"

namespace headscope::analysis {

// Where a head lies in a trace.
struct HeadSlots {
  int32_t layer = -1, qo_head = -1, kv_head = -1;
  int32_t kv_number = 0;  // of the KV head in its layer
};
// Throws UsageError, naming what was recorded, when the head is not in the trace.
HeadSlots FindHead(const data::TraceReader& trace, HeadId id);

// What heads of that layer have in common. Throws BadInputError when rows lie behind the recorded tokens.
HeadFrame ReadFrame(const data::TraceReader& trace, int32_t layer_slot);

// Refused (BadInputError, naming the head) are values that are not finite.
std::vector<float> ReadQueries(const data::TraceReader& trace, const HeadSlots& slots, const HeadFrame& frame,
                               HeadId id);
// Empty where the trace does not record them.
std::vector<float> ReadQueriesPreRope(const data::TraceReader& trace, const HeadSlots& slots, const HeadFrame& frame,
                                      HeadId id);
std::vector<float> ReadKeys(const data::TraceReader& trace, const HeadSlots& slots, const HeadFrame& frame, HeadId id);
std::vector<float> ReadValues(const data::TraceReader& trace, const HeadSlots& slots, const HeadFrame& frame,
                              HeadId id);
// Norms of W_o v by token, L1 where the trace has those of the layer, else Euclidean; empty: neither is recorded.
bool HasL1ValueNorms(const data::TraceReader& trace, int32_t layer_slot);
std::vector<float> ReadValueNorms(const data::TraceReader& trace, const HeadSlots& slots, const HeadFrame& frame,
                                  HeadId id);
// The head's learned logit, if its layer has such.
std::optional<float> SinkOf(const data::TraceReader& trace, HeadId id);
// As recorded.
void ReadLogSumExp(const data::TraceReader& trace, const HeadSlots& slots, HeadTensors* head);

// Copies the head to the device, if that is a GPU, where that gives the CPU's numbers; otherwise the head says why not.
void PutOn(const Device& device, HeadTensors* head);

}  // namespace headscope::analysis
