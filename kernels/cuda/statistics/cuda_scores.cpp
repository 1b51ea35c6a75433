// SPDX-License-Identifier: Apache-2.0
// CudaScores: Q, K and LSE of a host problem on the GPU, and the statistics' results back on the host.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device_memory.h"
#include "kernels/contiguous.h"
#include "kernels/cuda_devices.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_resources.h"
#include "kernels/cuda_statistics.h"
#include "problem_check.h"
#include "statistics/row_numbers.h"
#include "statistics/score_params.h"
#include "statistics/texels_between.h"

namespace headscope::kernels {
namespace {

template <typename T>
Status Download(T* to, const void* from, int64_t count) {
  // Waits for the kernels before it: their errors come out here.
  return CudaStatus(cudaMemcpy(to, from, static_cast<size_t>(count) * sizeof(T), cudaMemcpyDeviceToHost),
                    "computing statistics on the GPU");
}

int64_t HeadBytes(const AttentionProblem& problem, int32_t rows) {
  return int64_t{rows} * problem.head_dim * SizeOf(problem.dtype);
}

}  // namespace

struct CudaScores::Impl {
  int device = 0;
  int32_t window = 0;
  AttentionProblem problem;  // device pointers
  std::vector<float> sinks;  // the problem's
  DeviceMemory memory;
  float* lse = nullptr;

  int64_t NumRows() const { return int64_t{problem.batch} * problem.num_qo_heads * problem.seq_q; }
  // Runs run(output) with `count` elements of T on the device and brings them to `host`.
  template <typename T, typename Run>
  Status Compute(const char* what, T* host, int64_t count, Run&& run) const {
    if (host == nullptr) return {StatusCode::kInvalidArgument, std::string(what) + ": the output is null."};
    CudaDeviceScope scope;
    if (Status status = scope.Enter(device); !status.ok()) return status;
    DeviceMemory output;
    Status status = AllocateOnDevice(count * int64_t{sizeof(T)}, what, &output);
    if (status.ok()) status = run(static_cast<T*>(output.get()));
    return status.ok() ? Download(host, output.get(), count) : status;
  }
};

CudaScores::~CudaScores() = default;

Status CudaScores::Create(const AttentionProblem& host_problem, int32_t window, const float* host_lse,
                          std::unique_ptr<CudaScores>* made) {
  if (made == nullptr) return {StatusCode::kInvalidArgument, "CudaScores::Create: made is null."};
  // Host tensors may have any strides and alignment, so what is checked is the dense problem that they become.
  alignas(16) static constexpr char kAligned[16] = {};
  AttentionProblem dense = host_problem;
  SetContiguousTensors(host_problem.q.data != nullptr ? kAligned : nullptr,
                       host_problem.k.data != nullptr ? kAligned : nullptr, nullptr, &dense);
  statistics::ScoreParams params;
  if (Status status = statistics::MakeScoreParams(dense, window, 0, {}, nullptr, &params); !status.ok()) return status;

  std::unique_ptr<CudaScores> scores(new CudaScores);
  scores->impl_ = std::make_unique<Impl>();
  Impl& impl = *scores->impl_;
  impl.window = window;
  if (Status status = CudaStatus(cudaGetDevice(&impl.device), "asking for the current GPU"); !status.ok())
    return status;
  const int64_t q_bytes = HeadBytes(dense, dense.seq_q) * dense.num_qo_heads * dense.batch;
  const int64_t k_bytes = HeadBytes(dense, dense.seq_k) * dense.num_kv_heads * dense.batch;
  impl.problem = dense;
  if (dense.sinks != nullptr) {
    impl.sinks.assign(dense.sinks, dense.sinks + dense.num_qo_heads);
    impl.problem.sinks = impl.sinks.data();
  }
  const int64_t lse_bytes = impl.NumRows() * int64_t{sizeof(float)};
  if (Status status = AllocateOnDevice(q_bytes + k_bytes + lse_bytes, "a head's Q, K and LSE", &impl.memory);
      !status.ok()) {
    return status;
  }
  // head_dim is a multiple of 16, so every part starts 16-byte aligned.
  char* const base = static_cast<char*>(impl.memory.get());
  impl.problem.q.data = base;
  impl.problem.k.data = base + q_bytes;
  impl.lse = reinterpret_cast<float*>(base + q_bytes + k_bytes);
  Status status = UploadTensor(dense, dense.num_qo_heads, dense.seq_q, dense.head_dim, host_problem.q, base);
  if (status.ok()) {
    status = UploadTensor(dense, dense.num_kv_heads, dense.seq_k, dense.head_dim, host_problem.k, base + q_bytes);
  }
  if (!status.ok()) return status;
  if (host_lse != nullptr) {
    status = CudaStatus(cudaMemcpy(impl.lse, host_lse, static_cast<size_t>(lse_bytes), cudaMemcpyHostToDevice),
                        "copying a head's LSE to the GPU");
  } else {
    status = RowLseCuda(impl.problem, window, impl.lse, nullptr);
    if (status.ok()) status = CudaStatus(cudaDeviceSynchronize(), "computing row LSE on the GPU");
  }
  if (status.ok()) *made = std::move(scores);
  return status;
}

Status CudaScores::RowLse(float* lse) const {
  return impl_->Compute("row LSE", lse, impl_->NumRows(),
                        [&](float* output) { return RowLseCuda(impl_->problem, impl_->window, output, nullptr); });
}

Status CudaScores::KeptMass(const SparseIndexView& host_index, float* mass) const {
  CudaDeviceScope scope;
  if (Status status = scope.Enter(impl_->device); !status.ok()) return status;
  CudaIndexBuffers index;
  if (Status status = UploadIndex(host_index, &index); !status.ok()) return status;
  return impl_->Compute("kept mass", mass, impl_->NumRows(), [&](float* output) {
    return KeptMassCuda(impl_->problem, impl_->window, impl_->lse, index.view, output, nullptr);
  });
}

Status CudaScores::LineMass(const LineOptions& options, double* columns, double* distances) const {
  const AttentionProblem& problem = impl_->problem;
  const int64_t heads = int64_t{problem.batch} * problem.num_qo_heads;
  const int64_t num_distances = heads * (int64_t{problem.first_position} + problem.seq_q);
  return impl_->Compute("column masses", columns, heads * problem.seq_k, [&](double* device_columns) {
    return impl_->Compute("distance masses", distances, num_distances, [&](double* device_distances) {
      return LineMassCuda(problem, impl_->window, impl_->lse, options, device_columns, device_distances, nullptr);
    });
  });
}

Status CudaScores::TopMass(float* top_mass) const {
  CudaDeviceScope scope;
  if (Status status = scope.Enter(impl_->device); !status.ok()) return status;
  int64_t bytes = 0;
  DeviceMemory workspace;
  Status status = TopMassWorkspaceBytes(impl_->problem, &bytes);
  if (status.ok()) status = AllocateOnDevice(bytes, "the candidates of top-k mass", &workspace);
  if (!status.ok()) return status;
  return impl_->Compute("top-k mass", top_mass, impl_->NumRows() * kTopMassCounts, [&](float* output) {
    return TopMassCuda(impl_->problem, impl_->window, impl_->lse, output, workspace.get(), bytes, nullptr);
  });
}

Status CudaScores::Texels(const TexelRequest& request, float* texels) const {
  const int64_t heads = int64_t{impl_->problem.batch} * impl_->problem.num_qo_heads;
  const int64_t count = heads * std::max(request.num_rows, 0) * std::max(request.num_columns, 0);
  return impl_->Compute("texels", texels, count, [&](float* output) {
    return TexelsCuda(impl_->problem, impl_->window, impl_->lse, request, output, nullptr);
  });
}

Status CudaScores::TexelsBetween(TexelValue value, const std::vector<int64_t>& row_edges,
                                 const std::vector<int64_t>& column_edges, double* texels) const {
  if (texels == nullptr) return {StatusCode::kInvalidArgument, "texels: the output is null."};
  CudaDeviceScope scope;
  if (Status status = scope.Enter(impl_->device); !status.ok()) return status;
  return statistics::TexelsBetweenOnDevice(impl_->problem, impl_->window, impl_->lse, value, row_edges, column_edges,
                                           texels);
}

Status CudaScores::RowNumbers(const RowNumbersRequest& request, kernels::RowNumbers* numbers) const {
  if (numbers == nullptr || !request.take_blocks)
    return {StatusCode::kInvalidArgument, "CudaScores::RowNumbers: numbers or take_blocks is null."};
  CudaDeviceScope scope;
  if (Status status = scope.Enter(impl_->device); !status.ok()) return status;
  kernels::RowNumbers made;
  Status status = statistics::RowNumbersOnDevice(impl_->problem, impl_->window, impl_->lse, request, &made);
  if (status.ok()) *numbers = std::move(made);
  return status;
}

}  // namespace headscope::kernels
