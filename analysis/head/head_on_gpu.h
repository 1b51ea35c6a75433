// SPDX-License-Identifier: Apache-2.0
// Heads on the GPU: the one place where analysis decides whether the GPU computes a head's scores.
#pragma once

#include "analysis/head_tensors.h"
#include "base/device.h"
#include "kernels/status.h"

namespace headscope::analysis {

// Copies Q, K and LSE to that GPU in the 16-bit format that holds them exactly. The tensor cores multiply such
// values exactly and add in fp32, as the CPU does, so both give the same numbers; a head recorded in fp32 would be
// rounded, and stays on the CPU. Errors: kDeviceMissing without a GPU; kUnsupported, naming the head and the reason
// (values that neither bf16 nor fp16 holds, gaps between rows, a head_dim that the GPU's statistics do not take);
// kOutOfMemory.
// After an error the head is as it was.
kernels::Status CopyToGpu(const Device& gpu, HeadTensors* head);

// The calling thread's GPU. Errors are those of kernels::NameOfCudaDevice.
kernels::Status CurrentGpu(NamedDevice* device);

}  // namespace headscope::analysis
