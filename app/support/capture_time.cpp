// SPDX-License-Identifier: Apache-2.0
#include "support/capture_time.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "model/ceilings.h"

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

}  // namespace

CaptureTime::Rates CaptureTime::RatesOf(const Device& device) {
  Rates& rates = rates_[DeviceText(device)];
  if (rates.operations == 0) {
    const double size = kProductSize;
    rates.operations =
        2 * size * size * size / FastestSeconds(model::MakeMatrixProduct(kProductSize, "fp32", device, 0).get());
    rates.bytes = 2.0 * kCopyBytes / FastestSeconds(model::MakeCopy(kCopyBytes, device, 0).get());
  }
  return rates;
}

double CaptureTime::About(const model::CheckpointSummary& model, int64_t prompt_tokens, int64_t decode_tokens,
                          const Device& device) {
  if (device.is_gpu()) return 0;
  const std::lock_guard lock(mutex_);
  const Rates rates = RatesOf(device);
  const auto tokens = static_cast<double>(prompt_tokens), decode = static_cast<double>(decode_tokens);
  const auto parameters = static_cast<double>(model.num_parameters);
  const double heads = static_cast<double>(model.num_layers) * model.num_qo_heads;
  // Every weight once a token, and of attention q k^T and p v over the lower triangle.
  const double operations = 2 * parameters * tokens + 2 * heads * model.head_dim * tokens * tokens;
  // A generated token reads every weight.
  return operations / rates.operations + decode * 4 * parameters / rates.bytes;
}

}  // namespace headscope::app
