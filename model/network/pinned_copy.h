// SPDX-License-Identifier: Apache-2.0
// Copies of a GPU's tensors in the host's memory that neither the host nor the GPU's work waits for.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "model/transformer.h"

namespace headscope::model {

// A stream of the GPU that nothing but copies is given.
c10::Stream StreamOfCopies(c10::Device gpu);

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
  int64_t bytes() const override { return bytes_; }
  void Wait() override;

 private:
  c10::Stream stream_;
  std::optional<c10::Event> done_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  // from, to
  int64_t bytes_ = 0;
};

}  // namespace headscope::model
