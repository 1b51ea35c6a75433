// SPDX-License-Identifier: Apache-2.0
#include "live_heads.h"

#include <string>
#include <utility>

#include "base/check_status.h"
#include "base/errors.h"
#include "choices/torch_decode.h"

namespace headscope::app {

std::shared_ptr<analysis::LiveHead> LiveHeads::Of(ui::MapView view, const analysis::HeadTensorsPtr& head) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<analysis::LiveHead>& held = heads_[static_cast<size_t>(view)];
  std::shared_ptr<analysis::LiveHead> live = held.lock();
  if (!live || live->head() != head) {
    if (live) memory_->Release(live.get());
    live = std::make_shared<analysis::LiveHead>(head);
    held = live;
  }
  // A use of it, then of its head: what stays without its head would hold that uncounted.
  memory_->Keep(live, live->Bytes());
  memory_->Use(head.get());
  return live;
}

analysis::MaskPreview LiveHeads::Preview(ui::MapView view, const analysis::HeadTensorsPtr& head,
                                         const analysis::HeadMass& mass, const analysis::LiveChoice& choice,
                                         const std::stop_token& stop) {
  analysis::MaskPreview preview;
  CheckStatus(Of(view, head)->Preview(mass, choice, 0, stop, &preview));
  return preview;
}

analysis::LiveRun LiveHeads::Run(ui::MapView view, const analysis::HeadTensorsPtr& head,
                                 const analysis::LiveChoice& choice, const kernels::SparseIndex& index, Timed timed,
                                 const std::stop_token& stop) {
  const std::shared_ptr<analysis::LiveHead> live = Of(view, head);
  if (const int64_t kept = CountPairs(index.View()).kept; kept > kMostScores && !live->is_on_gpu()) {
    throw UsageError({.problem = "the kernel does not follow the sliders here, where the method keeps " +
                                 std::to_string(kept / 1'000'000) + " million scores, which take seconds",
                      .remedy = "press Run instead"});
  }
  analysis::LiveRun run;
  CheckStatus(timed == Timed::kYes ? live->Run(choice, index.View(), 0, stop, &run)
                                   : live->RunUntimed(index.View(), 0, stop, &run));
  return run;
}

void LiveHeads::ForgetDenseTimes(ui::MapView view) {
  const std::lock_guard lock(mutex_);
  if (const auto live = heads_[static_cast<size_t>(view)].lock()) live->ForgetDenseTimes();
}

void LiveHeads::Clear() {
  const std::lock_guard lock(mutex_);
  for (std::weak_ptr<analysis::LiveHead>& held : heads_) {
    memory_->Release(held.lock().get());
    held.reset();
  }
}

analysis::LiveRun RunDecodeLive(OpenedTrace& trace, ui::MapView view, analysis::HeadId head,
                                const kernels::DecodeMethod& method, const kernels::ParameterValues& values, bool alone,
                                Timed timed, const std::stop_token& stop) {
  const analysis::HeadTensorsPtr shown = trace.heads.Show(view, head);
  const analysis::MeasuredHeadsPtr measured = analysis::WithLowerLayers(
      trace.reader, alone ? analysis::AloneHead(shown) : trace.GroupOf(head), method.LowerLayers(values, head.layer));
  analysis::LiveRun run;
  const analysis::OtherDense other = timed == Timed::kYes ? TorchDecode(0) : analysis::OtherDense();
  CheckStatus(analysis::RunDecodeLive(*measured, head, method, values, trace.DecodeRows(), other, 0, stop, &run));
  if (timed == Timed::kNo) run.attend_ms = run.dense_attend_ms = 0;
  return run;
}

}  // namespace headscope::app
