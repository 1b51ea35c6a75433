// SPDX-License-Identifier: Apache-2.0
// LibTorch as this room uses it: which device, which number types, how many threads.
//
// Only this file and its neighbours in model/ see LibTorch. They include single operator headers (ATen/ops/...) and not
// ATen/ATen.h: each of them compiles in seconds that way, without a precompiled header.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/device.h"
#include "base/element_type.h"

namespace headscope::model {

// The number types of one run. They differ where ChooseNumberTypes mixes them: a bf16 model on a CPU.
struct NumberTypes {
  ElementType compute = ElementType::kFloat32;   // weights, activations, attention
  ElementType captured = ElementType::kFloat32;  // q, k and v are rounded to this before attention uses them
};

// "cpu", "cuda" or "cuda:N". For a GPU, loads LibTorch's CUDA half at run time, so that a program without a GPU never
// pays for it. Throws DeviceError when there is none.
c10::Device OpenDevice(const Device& device);

// compute: fp32 or bf16; nothing: as the model is stored. `stored` is the checkpoint's main dtype ("BF16", ...). Throws
// UsageError.
NumberTypes ChooseNumberTypes(std::optional<ElementType> compute, const std::string& stored, const c10::Device& device);

// Bytes of a GPU's memory that nobody has.
int64_t FreeMemory(const c10::Device& gpu);

at::ScalarType ScalarTypeOf(ElementType type);

// Threads inside LibTorch's CPU operators; 0: all cores. A setting of the process. They are started here, and tried
// before: where the system gives too few, LibTorch would wait for them for ever and OpenMP's runtime would end the
// process. Throws DeviceError when it gives too few.
void SetTorchThreads(int32_t num_threads);

// Names what would need less memory, as a remedy.
inline constexpr std::string_view kSmallerRun = "use a shorter prompt or bf16";

// To be called in a catch block, so that no error of LibTorch's own leaves this room: those carry a trace of C++
// frames. Throws DeviceError when LibTorch, CUDA or the allocator ran out of memory while `doing` (`smaller` may be
// empty: nothing that the caller chose is too large), FailedError with the first line of any other error of
// LibTorch, and what is not LibTorch's as it is.
[[noreturn]] void RethrowTorchError(const std::string& doing, std::string_view smaller = kSmallerRun);

}  // namespace headscope::model
