// SPDX-License-Identifier: Apache-2.0
// Numbers of four bits with a scale for every 32 (OCP Microscaling Formats 1.0: E2M1 with scales of E8M0), as published
// mixtures of experts store their weights.
#pragma once

#include <ATen/core/Tensor.h>

namespace headscope::model {

// blocks [out, in / 32, 16], two numbers to a byte, the lower half first, and scales [out, in / 32], both uint8 on the
// host; returns [out, in] fp32, and takes no memory beside it.
at::Tensor FromMxfp4(const at::Tensor& blocks, const at::Tensor& scales);

}  // namespace headscope::model
