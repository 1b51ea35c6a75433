// SPDX-License-Identifier: Apache-2.0
#include "network/pinned_copy.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <exception>
#include <thread>

#include "base/errors.h"
#include "network/torch_runtime.h"

namespace headscope::model {

c10::Stream StreamOfCopies(c10::Device gpu) {
  return c10::impl::VirtualGuardImpl(gpu.type()).getStreamFromGlobalPool(gpu);
}

// Whoever asks for a stream's events with another GPU current is made to use that one, too.
PinnedCopy::~PinnedCopy() {
  const c10::DeviceGuard on_device(stream_.device());
  done_.reset();
}

at::Tensor PinnedCopy::Of(const at::Tensor& from) {
  const at::TensorOptions pinned = at::TensorOptions(from.scalar_type()).device(at::kCPU).pinned_memory(true);
  at::Tensor to;
  try {
    to = at::empty(from.sizes(), pinned);
  } catch (const std::exception&) {
    throw DeviceError({.problem = "copying a layer's heads from the GPU: the host's memory is used up",
                       .remedy = "close other programs, or choose a smaller chunk"});
  }
  copies_.emplace_back(from.to(stream_.device()).contiguous(), to);
  bytes_ += static_cast<int64_t>(from.nbytes());
  return to;
}

void PinnedCopy::Begin() {
  const c10::DeviceGuard on_device(stream_.device());
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
  done_.emplace(stream_.device_type());
  done_->record(stream_);
}

void PinnedCopy::Wait() {
  // A thread that waits in the driver takes a whole processor.
  constexpr std::chrono::microseconds kBetweenLooks{100};
  try {
    const c10::DeviceGuard on_device(stream_.device());
    while (!done_->query()) std::this_thread::sleep_for(kBetweenLooks);
  } catch (...) {
    RethrowTorchError("copying a layer's heads from the GPU", "choose a smaller chunk");
  }
}

}  // namespace headscope::model
