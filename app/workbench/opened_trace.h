// SPDX-License-Identifier: Apache-2.0
// A trace as the window holds it: the reader, its summary, the heads in memory.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "analysis/measured_heads.h"
#include "data/trace_reader.h"
#include "head_cache.h"
#include "ui/workbench.h"

namespace headscope::app {

struct OpenedTrace {
  // Reads the layout and the tokens, no head. Throws as data::TraceReader.
  OpenedTrace(const std::string& path, const std::shared_ptr<ui::MemoryBudget>& memory);
  ~OpenedTrace();

  // summary.contents as it was while the trace held `tokens` tokens; empty: it holds fewer.
  std::string ContentsOfFirst(int64_t tokens) const;

  // The last recorded rows that decode methods are tried on: the tokens that the model generated, at most
  // 256 of them; in a trace without any, as many rows as `headscope compare` takes.
  int32_t DecodeRows() const { return summary.decode_rows; }

  // The head with the others of its KV head, as far as they are recorded: those that share a choice of keys. Throws as
  // analysis::LoadLayer.
  analysis::MeasuredHeadsPtr GroupOf(analysis::HeadId head);
  // What a run of the head is measured on: the head by itself, or its group.
  analysis::MeasuredHeadsPtr Measured(analysis::HeadId head, bool alone) {
    return alone ? analysis::AloneHead(heads.Get(head)) : GroupOf(head);
  }
  // analysis::MassInTrace, computed once a head. Null for a whole trace. Throws CancelledError.
  std::shared_ptr<const std::vector<double>> MassInTrace(const analysis::HeadTensors& head,
                                                         const std::stop_token& stop);

  const data::TraceReader reader;
  const ui::TraceSummary summary;
  HeadCache heads;

 private:
  const std::shared_ptr<ui::MemoryBudget> memory_;
  std::mutex mutex_;
  std::weak_ptr<const analysis::MeasuredHeads> group_;  // asked for last
  std::map<analysis::HeadId, std::shared_ptr<const std::vector<double>>> mass_in_trace_;
};

}  // namespace headscope::app
