// SPDX-License-Identifier: Apache-2.0
#include "support/capture_time.h"

#include <algorithm>
#include <memory>

#include "base/stopwatch.h"
#include "model/ceilings.h"

namespace headscope::app {
namespace {

constexpr int64_t kProductSize = 512, kCopyBytes = int64_t{32} << 20;
constexpr int kRuns = 3;  // the fastest counts

double FastestSeconds(model::Ceiling* work) {
  return std::max(FastestSecondsOf(kRuns, [&] { work->Run(); }), 1e-6);
}

}  // namespace

CaptureTime::Rates CaptureTime::RatesOf(ElementType dtype, const Device& device) {
  Rates& rates = rates_[DeviceText(device) + " " + std::string(NameOf(dtype))];
  if (rates.operations == 0) {
    const double size = kProductSize;
    rates.operations =
        2 * size * size * size / FastestSeconds(model::MakeMatrixProduct(kProductSize, dtype, device, 0).get());
    rates.bytes = 2.0 * kCopyBytes / FastestSeconds(model::MakeCopy(kCopyBytes, device, 0).get());
  }
  return rates;
}

double CaptureTime::About(const CaptureCost& cost, int64_t number_bytes, const Device& device) {
  if (device.is_gpu()) return 0;
  const std::lock_guard lock(mutex_);
  const Rates rates = RatesOf(number_bytes == 2 ? ElementType::kBFloat16 : ElementType::kFloat32, device);
  return cost.prompt_operations / rates.operations + cost.decode_bytes / rates.bytes;
}

}  // namespace headscope::app
