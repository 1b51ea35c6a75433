#include "head/head_on_gpu.h"

#include <bit>
#include <string>
#include <vector>

#include "compare/mask_quality.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_statistics.h"

namespace headscope::analysis {
namespace {

using kernels::DType;
using kernels::Status;
using kernels::StatusCode;

// The value's bits in the format. False when it has none: a bf16 number is an fp32 number whose lower half is 0; an
// fp16 number has 10 bits of fraction and an exponent from -14 to 15 (smaller ones, which fp16 has too, are left to the
// CPU).
bool Narrow(float value, DType dtype, uint16_t* narrow) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (dtype == DType::kBFloat16) {
    *narrow = static_cast<uint16_t>(bits >> 16);
    return (bits & 0xFFFFu) == 0;
  }
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t exponent = (bits >> 23) & 0xFFu;
  if ((bits & 0x7FFFFFFFu) == 0) {
    *narrow = static_cast<uint16_t>(sign);
    return true;
  }
  if (exponent < 127 - 14 || exponent > 127 + 15 || (bits & 0x1FFFu) != 0) return false;
  *narrow = static_cast<uint16_t>(sign | (exponent - 112) << 10 | ((bits >> 13) & 0x3FFu));
  return true;
}

bool Narrow(const std::vector<float>& values, DType dtype, std::vector<uint16_t>* narrow) {
  narrow->resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!Narrow(values[i], dtype, &(*narrow)[i])) return false;
  }
  return true;
}

}  // namespace

Status CopyToGpu(const HeadTensors& head, std::shared_ptr<const kernels::CudaScores>* made) {
  kernels::CudaDeviceInfo info;
  if (Status status = kernels::QueryCudaDevice(0, &info); !status.ok()) return status;
  if (Status status = CheckPrefillHead(head); !status.ok()) return status;
  kernels::AttentionProblem problem = head.Problem();
  std::vector<uint16_t> q, k;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    if (!Narrow(head.q, dtype, &q) || !Narrow(head.k, dtype, &k)) continue;
    problem.dtype = dtype;
    problem.q.data = q.data();
    problem.k.data = k.data();
    std::unique_ptr<kernels::CudaScores> scores;
    Status status = kernels::CudaScores::Create(problem, head.window, head.lse.data(), &scores);
    if (status.ok()) *made = std::move(scores);
    return status;
  }
  return {StatusCode::kUnsupported,
          "head " + HeadName(head.id) +
              " holds values that neither bf16 nor fp16 has, so the GPU would round them: record with --dtype bf16"};
}

}  // namespace headscope::analysis
