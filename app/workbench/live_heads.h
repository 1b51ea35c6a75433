// SPDX-License-Identifier: Apache-2.0
// Runs that follow a slider, and dense attention's outputs that they are held against: of the head that each map shows.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>

#include "analysis/live_head.h"
#include "analysis/mask_pair.h"
#include "kernels/decode_method.h"
#include "opened_trace.h"
#include "ui/workbench.h"

namespace headscope::app {

// Whether a live run has times, which are to be taken on a machine at rest, or is for the errors alone.
enum class Timed : uint8_t { kNo, kYes };

// Callable from any thread.
class LiveHeads {
 public:
  static constexpr int64_t kMostScores = analysis::LiveHead::kMostScores;  // on the CPU

  explicit LiveHeads(std::shared_ptr<ui::MemoryBudget> memory) : memory_(std::move(memory)) {}

  // A prefill method's mask; `mass` is the head's. Throws what the method refuses, and CancelledError.
  analysis::MaskPreview Preview(ui::MapView view, const analysis::HeadTensorsPtr& head, const analysis::HeadMass& mass,
                                const analysis::LiveChoice& choice, const std::stop_token& stop);
  // Of the mask that `choice` makes. Throws UsageError where the CPU would run and it keeps more than kMostScores, what
  // the kernels refuse, and CancelledError.
  analysis::LiveRun Run(ui::MapView view, const analysis::HeadTensorsPtr& head, const analysis::LiveChoice& choice,
                        const kernels::SparseIndex& index, Timed timed, const std::stop_token& stop);
  void ForgetDenseTimes(ui::MapView view);  // as Workbench's
  void Clear();

 private:
  std::shared_ptr<analysis::LiveHead> Of(ui::MapView view, const analysis::HeadTensorsPtr& head);

  const std::shared_ptr<ui::MemoryBudget> memory_;
  std::mutex mutex_;
  std::array<std::weak_ptr<analysis::LiveHead>, ui::kMapViews.size()> heads_;
};

// Of a decode method; `alone` as MaskOfDecode takes it. Timed beside the dense attention that its measured run has.
// Throws as that.
analysis::LiveRun RunDecodeLive(OpenedTrace& trace, ui::MapView view, analysis::HeadId head,
                                const kernels::DecodeMethod& method, const kernels::ParameterValues& values, bool alone,
                                Timed timed, const std::stop_token& stop);

}  // namespace headscope::app
