// SPDX-License-Identifier: Apache-2.0
#include "capture_estimator.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/device.h"
#include "model/capture_points.h"
#include "model/ceilings.h"
#include "model/input_file.h"
#include "model/model_config.h"
#include "model/model_session.h"
#include "model/model_tokenizer.h"

namespace headscope::app {
namespace {

constexpr int64_t kProductSize = 512, kCopyBytes = int64_t{32} << 20;
constexpr int kRuns = 3;  // the fastest counts

double FastestSeconds(model::Ceiling* work) {
  double fastest = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    const auto begun = std::chrono::steady_clock::now();
    work->Run();
    fastest = std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
  }
  return std::max(fastest, 1e-6);
}

int64_t CountPromptTokens(const ui::CaptureSettings& settings, const model::ModelConfig& config) {
  if (!settings.task.empty()) return settings.task_length;  // tasks are made to their length
  constexpr int64_t kMostBytes = int64_t{256} << 20;
  const std::string text =
      settings.prompt_file.empty() ? settings.prompt_text : model::ReadSmallFile(settings.prompt_file, kMostBytes);
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
        return ui::Recordable::Size::kHeadsAndTokens;
      case model::CapturePoint::kHiddenNorms:
        return ui::Recordable::Size::kTokens;
    }
    return ui::Recordable::Size::kTokens;
  };
  std::vector<ui::Recordable> all;
  for (const model::CapturePointInfo& info : model::kCapturePoints)
    all.push_back({std::string(info.name), std::string(info.help), size_of(info.point)});
  return all;
}

CaptureEstimator::Rates CaptureEstimator::RatesOf(const Device& device, const std::string& dtype) {
  Rates& rates = rates_[DeviceText(device) + " " + dtype];
  if (rates.operations == 0) {
    const double size = kProductSize;
    rates.operations =
        2 * size * size * size / FastestSeconds(model::MakeMatrixProduct(kProductSize, dtype, device, 0).get());
    rates.bytes = 2.0 * kCopyBytes / FastestSeconds(model::MakeCopy(kCopyBytes, device, 0).get());
  }
  return rates;
}

ui::CaptureEstimate CaptureEstimator::Estimate(const ui::CaptureSettings& settings) {
  const std::lock_guard lock(mutex_);
  const model::ModelConfig config = model::ReadModelConfig(settings.model_dir);
  const model::CheckpointSummary summary = model::ReadCheckpointSummary(settings.model_dir, /*with_hash=*/false);
  ui::CaptureEstimate estimate;
  estimate.prompt_tokens = CountPromptTokens(settings, config);
  // The enqueueing of work on a GPU is no measure of it.
  if (settings.device.is_gpu()) return estimate;
  const Rates rates = RatesOf(settings.device, "fp32");
  const auto tokens = static_cast<double>(estimate.prompt_tokens), decode = static_cast<double>(settings.decode_tokens);
  const auto parameters = static_cast<double>(summary.num_parameters);
  const double heads = static_cast<double>(summary.num_layers) * summary.num_qo_heads;
  // Every weight once a token, and of attention q k^T and p v over the lower triangle.
  const double operations = 2 * parameters * tokens + 2 * heads * summary.head_dim * tokens * tokens;
  // A generated token reads every weight.
  estimate.seconds = operations / rates.operations + decode * 4 * parameters / rates.bytes;
  return estimate;
}

}  // namespace headscope::app
