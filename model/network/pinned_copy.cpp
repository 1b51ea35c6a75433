// SPDX-License-Identifier: Apache-2.0
#include "network/pinned_copy.h"

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "network/torch_runtime.h"

namespace headscope::model {

c10::Stream StreamOfCopies(c10::Device gpu) {
  return c10::impl::VirtualGuardImpl(gpu.type()).getStreamFromGlobalPool(gpu);
}

at::Tensor PinnedCopy::Of(const at::Tensor& from) {
  const at::TensorOptions pinned = at::TensorOptions(from.scalar_type()).device(at::kCPU).pinned_memory(true);
  copies_.emplace_back(from.contiguous(), at::empty(from.sizes(), pinned));
  bytes_ += static_cast<int64_t>(from.nbytes());
  return copies_.back().second;
}

void PinnedCopy::Begin() {
  const c10::impl::VirtualGuardImpl guard(stream_.device_type());
  c10::Event made(stream_.device_type());
  made.record(guard.getStream(stream_.device()));
  made.block(stream_);
  {
    const c10::StreamGuard on_stream(stream_);
    for (auto& [from, to] : copies_) {
      to.copy_(from, /*non_blocking=*/true);
      from.record_stream(stream_);
      from.reset();  // the allocator gives the memory to nobody before the copy is over
    }
  }
  done_.record(stream_);
}

void PinnedCopy::Wait() {
  try {
    done_.synchronize();
  } catch (...) {
    RethrowTorchError("copying a layer's heads from the GPU", "choose a smaller chunk");
  }
}

}  // namespace headscope::model
