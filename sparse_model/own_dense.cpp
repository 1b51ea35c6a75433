// SPDX-License-Identifier: Apache-2.0
#include "sparse_model/own_dense.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "base/check_status.h"
#include "model_device.h"

namespace headscope::sparse_model {
namespace {

class OwnDenseExecutor final : public model::DenseExecutor {
 public:
  bool Attend(const model::AttentionCall& call) override {
    const model::AttentionLayer& facts = *call.facts;
    if (!call.on_device || !facts.causal || facts.chunk > 0 || facts.selected > 0) return false;
    // A sink of minus infinity, for a head without one, is nothing that kernels take.
    if (!std::ranges::all_of(facts.sinks, [](float sink) { return std::isfinite(sink); })) return false;
    std::unique_ptr<ModelDevice>& device = gpus_[call.device_ordinal];
    if (device == nullptr) device = MakeGpuDevice({});
    bool attended = false;
    const kernels::Status status = device->DenseIfFaster(call, &attended);
    if (!status.ok()) CheckStatus(status, "dense attention in layer " + std::to_string(call.layer));
    return attended;
  }

 private:
  std::map<int32_t, std::unique_ptr<ModelDevice>> gpus_;  // by ordinal: layers may lie on several
};

}  // namespace

std::shared_ptr<model::DenseExecutor> OwnDense() {
  return std::make_shared<OwnDenseExecutor>();
}

}  // namespace headscope::sparse_model
