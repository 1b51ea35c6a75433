// SPDX-License-Identifier: Apache-2.0
#include "network/pinned_copy.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <exception>
#include <thread>

#include "base/errors.h"
#include "network/torch_runtime.h"

namespace headscope::model {

namespace {

at::Tensor Pinned(at::IntArrayRef sizes, at::ScalarType type) {
  try {
    return at::empty(sizes, at::TensorOptions(type).device(at::kCPU).pinned_memory(true));
  } catch (const std::exception&) {
    throw DeviceError({.problem = "copying a layer's heads from the GPU: the host's memory is used up",
                       .remedy = "close other programs, or choose a smaller chunk"});
  }
}

// What a tensor's pinned copy takes: LibTorch hands such memory out by powers of two.
int64_t PinnedBytes(const at::Tensor& from) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(from.nbytes())));
}

// Has `stream` wait for all that the current one was given so far.
void WaitForCurrent(const c10::Stream& stream) {
  const c10::impl::VirtualGuardImpl guard(stream.device_type());
  c10::Event made(stream.device_type());
  made.record(guard.getStream(stream.device()));
  made.block(stream);
}

void WaitFor(const std::optional<c10::Event>& done, const c10::Stream& stream) {
  // A thread that waits in the driver takes a whole processor.
  constexpr std::chrono::microseconds kBetweenLooks{100};
  try {
    const c10::DeviceGuard on_device(stream.device());
    while (!done->query()) std::this_thread::sleep_for(kBetweenLooks);
  } catch (...) {
    RethrowTorchError("copying a layer's heads from the GPU", "choose a smaller chunk");
  }
}

}  // namespace

c10::Stream StreamOfCopies(c10::Device gpu) {
  return c10::impl::VirtualGuardImpl(gpu.type()).getStreamFromGlobalPool(gpu);
}

void GivePinnedMemoryBack() noexcept {
  try {
    at::getHostAllocator(at::kCUDA)->empty_cache();
  } catch (...) {  // it is kept then, for the next copy
  }
}

// Whoever asks for a stream's events with another GPU current is made to use that one, too.
PinnedCopy::~PinnedCopy() {
  const c10::DeviceGuard on_device(stream_.device());
  done_.reset();
}

at::Tensor PinnedCopy::Of(const at::Tensor& from) {
  at::Tensor to = Pinned(from.sizes(), from.scalar_type());
  copies_.emplace_back(from.to(stream_.device()).contiguous(), to);
  bytes_ += PinnedBytes(from);
  return to;
}

void PinnedCopy::Begin() {
  const c10::DeviceGuard on_device(stream_.device());
  WaitForCurrent(stream_);
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
  WaitFor(done_, stream_);
}

PassCopies::~PassCopies() {
  const c10::DeviceGuard on_device(stream_.device());
  done_.reset();
}

const void* PassCopies::Of(const at::Tensor& from) {
  constexpr int64_t kAligned = 16;
  const at::Tensor values = from.contiguous().view({-1}).view(at::kByte);
  const int64_t size = values.numel();
  const auto padded = [](int64_t used) { return (used + kAligned - 1) / kAligned * kAligned; };
  if (blocks_.empty() || padded(blocks_.back().used) + size > blocks_.back().to.numel())
    blocks_.push_back({Pinned({std::max(block_bytes_, size)}, at::kByte), 0, {}});
  Block& block = blocks_.back();
  if (const int64_t past = block.used % kAligned; past > 0) {
    block.from.push_back(at::empty({kAligned - past}, values.options()));
    block.used += kAligned - past;
    bytes_ += kAligned - past;
  }
  const void* const place = static_cast<const char*>(block.to.const_data_ptr()) + block.used;
  block.from.push_back(values);
  block.used += size;
  bytes_ += size;
  return place;
}

void PassCopies::Copy() {
  const c10::DeviceGuard on_device(stream_.device());
  std::vector<at::Tensor> packed;
  for (Block& block : blocks_) {
    packed.push_back(at::cat(block.from));
    block.from.clear();
  }
  WaitForCurrent(stream_);
  const c10::StreamGuard on_stream(stream_);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    blocks_[i].to.narrow(0, 0, blocks_[i].used).copy_(packed[i], /*non_blocking=*/true);
    packed[i].record_stream(stream_);
  }
  done_.emplace(stream_.device_type());
  done_->record(stream_);
}

void PassCopies::Begin() noexcept {
  std::exception_ptr failure;
  try {
    Copy();
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    failure_ = failure;
    has_begun_ = true;
  }
  begun_.notify_all();
}

void PassCopies::Wait() {
  {
    std::unique_lock lock(mutex_);
    begun_.wait(lock, [this] { return has_begun_; });
  }
  try {
    if (failure_) std::rethrow_exception(failure_);
  } catch (...) {
    RethrowTorchError("copying a step's heads from the GPU", "");
  }
  WaitFor(done_, stream_);
}

}  // namespace headscope::model
