// SPDX-License-Identifier: Apache-2.0
#include "head_pair.h"

#include <gtest/gtest.h>

#include <bit>

#include "head/head_on_gpu.h"
#include "kernels/cpu_scores.h"

namespace headscope::analysis::testing {

HeadTensors Bf16Head(const RandomHeadShape& shape, uint32_t seed) {
  return Bf16Head(*RandomHead(shape, seed));
}

HeadTensors Bf16Head(HeadTensors head) {
  for (std::vector<float>* values : {&head.q, &head.k, &head.v}) {
    for (float& value : *values) value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xFFFF0000u);
  }
  EXPECT_TRUE(kernels::RowLse(head.Problem(), head.window, {}, head.lse.data()).ok());
  return head;
}

HeadPair OnBoth(const RandomHeadShape& shape, uint32_t seed) {
  return OnBoth(Bf16Head(shape, seed));
}

HeadPair OnBoth(HeadTensors head) {
  HeadPair pair;
  pair.cpu = std::make_shared<HeadTensors>(head);
  const kernels::Status status = CopyToGpu(CudaDevice(0), &head);
  EXPECT_TRUE(status.ok()) << status.message();
  head.gpu_device = {CudaDevice(0), "the GPU"};
  pair.gpu = std::make_shared<HeadTensors>(std::move(head));
  return pair;
}

}  // namespace headscope::analysis::testing
