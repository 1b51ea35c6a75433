// SPDX-License-Identifier: Apache-2.0
#include "head/head_on_gpu.h"

#include <string>
#include <vector>

#include "compare/sixteen_bits.h"
#include "head/head_checks.h"
#include "kernels/cuda_devices.h"
#include "kernels/cuda_statistics.h"

namespace headscope::analysis {
namespace {

using kernels::DType;
using kernels::Status;
using kernels::StatusCode;

}  // namespace

Status CopyToGpu(const Device& gpu, HeadTensors* copied) {
  const HeadTensors& head = *copied;
  kernels::CudaDeviceScope scope;
  if (Status status = scope.Enter(gpu.ordinal); !status.ok()) return status;
  NamedDevice name;
  if (Status status = CurrentGpu(&name); !status.ok()) return status;
  if (Status status = CheckPrefillHead(head); !status.ok()) return status;
  if (head.chunk > 0) {
    return {StatusCode::kUnsupported, "head " + HeadName(head.id) + " attends in chunks of " +
                                          std::to_string(head.chunk) +
                                          " tokens, which the GPU's statistics do not support"};
  }
  if (head.bidirectional) {
    return {StatusCode::kUnsupported,
            "head " + HeadName(head.id) +
                " also sees what comes after its rows, which the GPU's statistics do not support"};
  }
  kernels::AttentionProblem problem = head.Problem();
  problem.v_head_dim = 0;  // scores know neither values nor sinks, and the recorded lse has the sink among its terms
  problem.sinks = nullptr;
  std::vector<uint16_t> q, k;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    if (!NarrowExactly(head.q, dtype, &q) || !NarrowExactly(head.k, dtype, &k)) continue;
    problem.dtype = dtype;
    problem.q.data = q.data();
    problem.k.data = k.data();
    std::unique_ptr<kernels::CudaScores> scores;
    Status status = kernels::CudaScores::Create(problem, head.window, head.lse.data(), &scores);
    if (!status.ok()) return status;
    copied->gpu = std::move(scores);
    copied->gpu_device = name;
    return {};
  }
  return {StatusCode::kUnsupported,
          "head " + HeadName(head.id) +
              " holds values that neither bf16 nor fp16 has, so the GPU would round them: record it in bf16"};
}

Status CurrentGpu(NamedDevice* device) {
  device->device = CudaDevice(0);
  return kernels::NameOfCudaDevice(&device->name, &device->device.ordinal);
}

}  // namespace headscope::analysis
