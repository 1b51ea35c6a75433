// SPDX-License-Identifier: Apache-2.0
// What a machine can do at best, through LibTorch: a matrix product (arithmetic) and a copy (memory). Kernels are
// judged by their share of these, measured in the same run.
#pragma once

#include <cstdint>
#include <memory>

#include "base/device.h"
#include "base/element_type.h"
#include "base/errors.h"

namespace headscope::model {

// Work that can be done any number of times. The caller holds the clock.
class Ceiling {
 public:
  virtual ~Ceiling() = default;
  // Does the work once; on a GPU, enqueues it on the default stream. Throws DeviceError.
  virtual void Run() = 0;
};

// C = A B of random normal matrices [size, size] of `dtype`: 2 * size^3 floating-point operations.
// Random, because power, and so the clock of a GPU, depends on the bits. device: cpu, cuda or cuda:N; num_threads: 0
// for all cores, a setting of the process. Throws DeviceError, std::invalid_argument.
std::unique_ptr<Ceiling> MakeMatrixProduct(int64_t size, ElementType dtype, const Device& device, int32_t num_threads);

// Copies `bytes` (a multiple of 4) from one place of the device's memory to another: moves twice as many.
std::unique_ptr<Ceiling> MakeCopy(int64_t bytes, const Device& device, int32_t num_threads);

}  // namespace headscope::model
