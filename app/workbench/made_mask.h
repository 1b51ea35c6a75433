// SPDX-License-Identifier: Apache-2.0
// The mask of a method on the head that a view shows, with what the window says of it.
#pragma once

#include <stop_token>

#include "analysis/compare.h"
#include "analysis/mask_pair.h"
#include "kernels/decode_method.h"
#include "kernels/method.h"
#include "live_heads.h"
#include "mass_cache.h"
#include "opened_trace.h"
#include "ui/workbench.h"

namespace headscope::app {

// A mask as the window shows it, and what its tiles are made from.
struct MadeMask {
  ui::LiveMask live;
  analysis::KeptMask held;
};

// Both throw CancelledError when stopped, and what a method refuses.
MadeMask MaskOfPrefill(OpenedTrace& trace, ui::MapView view, analysis::HeadId head,
                       const kernels::PrefillMethod& method, const kernels::ParameterValues& values, MassCache* masses,
                       LiveHeads* live, const std::stop_token& stop);
// `alone`: the head by itself rather than in its layer, where the query heads of a KV head may share a choice.
MadeMask MaskOfDecode(OpenedTrace& trace, ui::MapView view, analysis::HeadId head, const kernels::DecodeMethod& method,
                      const kernels::ParameterValues& values, bool alone, const std::stop_token& stop);

}  // namespace headscope::app
