// SPDX-License-Identifier: Apache-2.0
#include "made_mask.h"

#include <utility>

#include "analysis/measured_heads.h"
#include "analysis/outside_mass.h"
#include "base/check_status.h"
#include "base/errors.h"

namespace headscope::app {

MadeMask MaskOfPrefill(OpenedTrace& trace, ui::MapView view, analysis::HeadId head,
                       const kernels::PrefillMethod& method, const kernels::ParameterValues& values, MassCache* masses,
                       LiveHeads* live, const std::stop_token& stop) {
  const analysis::HeadTensorsPtr shown = trace.heads.Show(view, head);
  const MassCache::MassPtr mass = masses->Get(view, shown, stop);
  analysis::MaskPreview preview = live->Preview(view, shown, *mass, {method, values}, stop);
  MadeMask made;
  if (const auto inside = trace.MassInTrace(*shown, stop))
    made.live.outside_mass = analysis::MeanOutsideMass(*shown, *inside, 0, shown->num_rows);
  made.live.summary = std::move(preview.summary);
  made.live.kept_mass = std::move(preview.kept_mass);
  made.held = {preview.index, preview.window, nullptr};
  return made;
}

MadeMask MaskOfDecode(OpenedTrace& trace, ui::MapView view, analysis::HeadId head, const kernels::DecodeMethod& method,
                      const kernels::ParameterValues& values, bool alone, const std::stop_token& stop) {
  const analysis::HeadTensorsPtr shown = trace.heads.Show(view, head);
  // As a run measures it: in its layer, where the query heads of a KV head may share a choice.
  const analysis::MeasuredHeadsPtr measured = analysis::WithLowerLayers(
      trace.reader, alone ? analysis::AloneHead(shown) : trace.GroupOf(head), method.LowerLayers(values, head.layer));
  analysis::DecodePreview preview;
  const kernels::Status status =
      analysis::PreviewDecode(*measured, head, method, values, trace.DecodeRows(), 0, stop, &preview);
  CheckStatus(status);
  MadeMask made;
  made.live.chosen_per = preview.chosen_per;
  if (const auto inside = trace.MassInTrace(*shown, stop))
    made.live.outside_mass =
        analysis::MeanOutsideMass(*shown, *inside, preview.steps->first_row, preview.steps->end_row());
  made.live.summary = std::move(preview.summary);
  made.live.kept_mass = std::move(preview.kept_mass);
  made.live.steps = preview.steps;
  made.held = {nullptr, 0, preview.steps};
  return made;
}

}  // namespace headscope::app
