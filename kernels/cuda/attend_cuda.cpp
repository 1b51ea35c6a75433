// SPDX-License-Identifier: Apache-2.0
// AttendCuda: the choice of kernel.
#include <cuda_runtime_api.h>

#include <string>

#include "current_device.h"
#include "hopper/attend_hopper.h"
#include "kernels/cuda_executor.h"
#include "problem_check.h"

namespace headscope::kernels {

Status ChooseCudaKernel(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output,
                        CudaKernelChoice* choice) {
  if (choice == nullptr) return {StatusCode::kInvalidArgument, "ChooseCudaKernel: choice is null."};
  if (Status status = CheckProblem(problem, index, output); !status.ok()) return status;
  CurrentDevice device;
  if (Status status = FindCurrentDevice(&device); !status.ok()) return status;
  choice->reason = hopper::WhyNot(problem, index, output, device);
  choice->kernel = choice->reason.empty() ? CudaKernel::kHopper : CudaKernel::kSimple;
  return {};
}

Status AttendCuda(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output,
                  void* stream) {
  CudaKernelChoice choice;
  if (Status status = ChooseCudaKernel(problem, index, output, &choice); !status.ok()) return status;
  if (choice.kernel == CudaKernel::kSimple) return AttendCudaSimple(problem, index, output, stream);
  CurrentDevice device;
  if (Status status = FindCurrentDevice(&device); !status.ok()) return status;
  if (Status status = CheckProblemOnDevice(problem, index, output, stream); !status.ok()) return status;
  return hopper::Attend(problem, index, output, device, static_cast<cudaStream_t>(stream));
}

}  // namespace headscope::kernels
