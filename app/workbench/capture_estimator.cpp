// SPDX-License-Identifier: Apache-2.0
#include "capture_estimator.h"

#include <iterator>

#include "capture/prompt_file.h"
#include "capture_job.h"
#include "model/capture_points.h"
#include "model/model_config.h"
#include "model/model_session.h"
#include "model/model_tokenizer.h"
#include "model/safetensors.h"
#include "support/capture_cost.h"

namespace headscope::app {
namespace {

int64_t CountPromptTokens(const ui::CaptureSettings& settings, const model::ModelConfig& config) {
  if (!settings.task.empty()) return settings.task_length;  // tasks are made to their length
  if (!settings.prompt_ids.empty()) return static_cast<int64_t>(settings.prompt_ids.size());
  const std::string text =
      settings.prompt_file.empty() ? settings.prompt_text : capture::ReadPromptFile(settings.prompt_file);
  const model::Tokenizer tokenizer = model::LoadModelTokenizer(settings.model_dir, config);
  try {
    return static_cast<int64_t>(tokenizer.Encode(text, /*add_special_tokens=*/true, config.max_positions).size());
  } catch (const model::TooManyTokens& too_many) {
    return too_many.at_least;
  }
}

}  // namespace

std::vector<ui::Recordable> RecordableByCaptures() {
  const auto size_of = [](model::CapturePoint point) {
    switch (point) {
      case model::CapturePoint::kPreRope:
        return ui::Recordable::Size::kQueriesAndKeys;
      case model::CapturePoint::kValueNorms:
      case model::CapturePoint::kValueNormsL1:
        return ui::Recordable::Size::kHeadsAndTokens;
      case model::CapturePoint::kHiddenNorms:
        return ui::Recordable::Size::kTokens;
      case model::CapturePoint::kProjection:
        return ui::Recordable::Size::kQueriesAndKeys;
      case model::CapturePoint::kCache:
        return ui::Recordable::Size::kKeysAndValues;
      case model::CapturePoint::kResidual:
        return ui::Recordable::Size::kHiddenStates;
      case model::CapturePoint::kHeadOutputs:
        return ui::Recordable::Size::kOutputs;
    }
    return ui::Recordable::Size::kTokens;
  };
  std::vector<ui::Recordable> all;
  all.reserve(std::size(model::kCapturePoints));
  for (const model::CapturePointInfo& info : model::kCapturePoints)
    all.push_back({std::string(info.name), std::string(info.help), size_of(info.point)});
  return all;
}

ui::ModelDescription DescribeCheckpoint(const std::string& model_dir) {
  const model::CheckpointSummary summary = model::ReadCheckpointSummary(model_dir, /*with_hash=*/false);
  ui::ModelDescription description;
  description.model_dir = model_dir;
  description.model_type = summary.model_type;
  description.dtype = summary.dtype;
  description.recorded_type = model::TypeByItself(summary.dtype);
  description.num_parameters = summary.num_parameters;
  description.max_positions = summary.max_positions;
  description.num_layers = summary.num_layers;
  description.num_qo_heads = summary.num_qo_heads;
  description.num_kv_heads = summary.num_kv_heads;
  description.head_dim = summary.head_dim;
  description.hidden_size = summary.hidden_size;
  if (model::IsEncoder(model::ReadModelConfig(model_dir)))
    description.why_not_shown =
        "The window cannot open an encoder's trace because its queries also see later tokens. You can still capture it "
        "and draw its maps on the command line.";
  return description;
}

void SetCost(const capture::CapturePlan& plan, const Device& asked, int64_t model_bytes, double seconds,
             ui::CaptureEstimate* estimate) {
  const std::vector<Device>& layers = plan.placement.layers;
  const bool spread = IsSpread(layers);
  estimate->on_gpu = !spread && (layers.empty() ? asked : layers.front()).is_gpu();
  estimate->memory_bytes =
      model_bytes + (estimate->on_gpu ? 0 : capture::RecorderBytes(plan, capture::UsesGpu(asked, plan.placement)));
  estimate->seconds = spread ? 0 : seconds;
}

ui::CaptureEstimate CaptureEstimator::Estimate(const ui::CaptureSettings& settings) {
  const model::ModelConfig config = model::ReadModelConfig(settings.model_dir);
  const model::CheckpointSummary summary = model::ReadCheckpointSummary(settings.model_dir, /*with_hash=*/false);
  ui::CaptureEstimate estimate;
  estimate.prompt_tokens = CountPromptTokens(settings, config);
  if (estimate.prompt_tokens + settings.decode_tokens > config.max_positions) return estimate;  // which says enough
  // Of as many tokens as were counted, so that no text is cut twice.
  capture::CaptureRequest request = RequestOf(settings);
  request.text.reset();
  request.prompt_file.reset();
  request.task.reset();
  request.tokens.assign(static_cast<size_t>(estimate.prompt_tokens), 0);
  const capture::CapturePlan plan = capture::EstimateCapture(request);
  // Layers that are placed by memory have the first of them, and the types of its numbers, on a GPU if any is there.
  const Device device = plan.placement.layers.empty() ? settings.device : plan.placement.layers.front();
  const int64_t number_bytes = NumberBytes(summary, settings.dtype, device);
  const CaptureCost cost = CostOf(config, summary,
                                  {.prompt_tokens = estimate.prompt_tokens,
                                   .decode_tokens = settings.decode_tokens,
                                   .chunk_tokens = request.chunk_tokens,
                                   .on_gpu = device.is_gpu() && !IsSpread(plan.placement.layers),
                                   .recorded_bytes = capture::LayerBytesOfToken(plan.bytes, plan.layout),
                                   .points = request.record,
                                   .layer_devices = plan.placement.layers,
                                   .last_layer = plan.last_layer},
                                  number_bytes);
  estimate.trace_bytes = plan.bytes;
  SetCost(plan, settings.device, cost.model_bytes,
          IsSpread(plan.placement.layers) ? 0 : time_.About(cost, number_bytes, device), &estimate);
  estimate.placement = PlacementOf(plan.placement);
  return estimate;
}

}  // namespace headscope::app
