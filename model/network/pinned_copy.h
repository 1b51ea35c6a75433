// SPDX-License-Identifier: Apache-2.0
// Copies of a GPU's tensors in the host's memory that neither the host nor the GPU's work waits for.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "model/transformer.h"

namespace headscope::model {

// A stream of the GPU that nothing but copies is given.
c10::Stream StreamOfCopies(c10::Device gpu);

// LibTorch keeps pinned memory that nobody uses any more for the next copy, for as long as the program runs; this frees
// it.
void GivePinnedMemoryBack() noexcept;

class PinnedCopy final : public HostCopy {
 public:
  // `stream`: makes the copies.
  explicit PinnedCopy(c10::Stream stream) : stream_(stream) {}
  ~PinnedCopy() override;
  // The place of a copy of `from`, of its shape and contiguous. It is filled once Begin() was called. What lies on
  // another device is moved to the stream's first. Throws DeviceError when the host's memory does not suffice.
  at::Tensor Of(const at::Tensor& from);
  // Copies what has a place, behind all that the current stream was given so far.
  void Begin();
  int64_t bytes() const override { return bytes_; }  // of pinned memory
  void Wait() override;

 private:
  c10::Stream stream_;
  std::optional<c10::Event> done_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  // from, to
  int64_t bytes_ = 0;
};

// Copies of what all layers of a short pass hand over, made together when the pass ends: of a step's few rows, to ask
// for a copy takes longer than to make it.
class PassCopies {
 public:
  // `stream`: makes the copies. block_bytes: of pinned memory that is taken at once, where a tensor is not larger; what
  // the pass before had, so that a small model's step does not hold more than it needs.
  PassCopies(c10::Stream stream, int64_t block_bytes) : stream_(stream), block_bytes_(block_bytes) {}
  ~PassCopies();
  // The place of a copy of `from`, contiguous: filled once Begin() was called, up to which nobody changes `from`, which
  // lies on the stream's device. Throws as PinnedCopy::Of.
  const void* Of(const at::Tensor& from);
  // Copies what has a place, behind all that the current stream was given so far. Also of a pass that failed: what
  // waits would wait for ever. The last call.
  void Begin() noexcept;
  // Until Begin() was called and all of it is there; on any thread. Throws as HostCopy::Wait.
  void Wait();
  int64_t bytes() const { return bytes_; }  // of pinned memory that what has a place takes

 private:
  struct Block {
    at::Tensor to;
    int64_t used = 0;
    std::vector<at::Tensor> from;  // as bytes, one behind the other
  };
  void Copy();

  const c10::Stream stream_;
  const int64_t block_bytes_;
  std::vector<Block> blocks_;
  int64_t bytes_ = 0;
  std::mutex mutex_;
  std::condition_variable begun_;
  bool has_begun_ = false;
  std::exception_ptr failure_;
  std::optional<c10::Event> done_;
};

// One layer's part of them.
class PartOfPass final : public HostCopy {
 public:
  PartOfPass(std::shared_ptr<PassCopies> copies, int64_t bytes) : copies_(std::move(copies)), bytes_(bytes) {}
  int64_t bytes() const override { return bytes_; }
  void Wait() override { copies_->Wait(); }

 private:
  const std::shared_ptr<PassCopies> copies_;
  const int64_t bytes_;
};

}  // namespace headscope::model
