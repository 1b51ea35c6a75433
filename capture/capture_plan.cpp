// SPDX-License-Identifier: Apache-2.0
// What a capture will record and where the model's layers will lie.
#include <algorithm>
#include <string>
#include <utility>

#include "base/errors.h"
#include "capture/capture.h"
#include "checked_request.h"
#include "model/layer_placement.h"
#include "one_capture.h"

namespace headscope::capture {

model::Placement PlaceLayers(const CaptureRequest& request, int64_t tokens, std::optional<int32_t> last_layer) {
  if (!request.place_by_memory) return {};
  model::Placement placement =
      model::PlaceByMemory(request.model_dir, SessionOf(request), tokens, request.record, last_layer);
  const std::vector<Device>& placed = placement.layers;
  const bool several = std::ranges::any_of(placed, [&](const Device& one) { return one != placed.front(); });
  if (several && request.attention != nullptr) {
    throw UsageError({.field = "attention",
                      .value = request.attention_text,
                      .problem = "the model is spread over several devices (" + model::PlacementText(placed) +
                                 "), but methods run on one",
                      .remedy = "name one device, or leave the method out"});
  }
  return placement;
}

bool UsesGpu(const Device& asked, const model::Placement& placement) {
  return placement.layers.empty() ? asked.is_gpu() : std::ranges::any_of(placement.layers, &Device::is_gpu);
}

int64_t LayerBytesOfToken(int64_t trace_bytes, const data::TraceLayout& layout) {
  return trace_bytes / (std::ssize(layout.layers) * std::max<int64_t>(1, layout.max_tokens));
}

CapturePlan PlanWith(const CaptureRequest& request, ModelInUse* in_use) {
  CheckedRequest plan(request, in_use);
  in_use->most_tokens = std::max(in_use->most_tokens, plan.layout().max_tokens);
  in_use->last_layer = plan.last_layer();
  return {.layout = std::move(plan.layout()),
          .num_prompt_tokens = plan.num_prompt_tokens(),
          .num_rows = plan.num_rows(),
          .bytes = plan.bytes(),
          .num_files = request.num_files,
          .last_layer = plan.last_layer(),
          .why_no_texts = in_use->why_no_texts};
}

CapturePlan PlanCapture(const CaptureRequest& request) {
  ModelInUse in_use;
  CapturePlan plan = PlanWith(request, &in_use);
  plan.placement = PlaceLayers(request, plan.layout.max_tokens, plan.last_layer);
  return plan;
}

CapturePlan EstimateCapture(const CaptureRequest& request) {
  ModelInUse in_use;
  CheckedRequest plan(request, &in_use, CheckedRequest::For::kEstimate);
  return {.layout = plan.layout(),
          .num_prompt_tokens = plan.num_prompt_tokens(),
          .num_rows = plan.num_rows(),
          .bytes = plan.bytes(),
          .num_files = request.num_files,
          .last_layer = plan.last_layer(),
          .placement = PlaceLayers(request, plan.layout().max_tokens, plan.last_layer())};
}

}  // namespace headscope::capture
