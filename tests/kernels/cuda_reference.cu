// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>

#include "cuda_reference.h"
#include "kernels/cuda_resources.h"

namespace headscope::kernels::testing {
namespace {

__device__ double Load(const void* data, int64_t i, DType dtype) {
  if (dtype == DType::kFloat32) return static_cast<const float*>(data)[i];
  if (dtype == DType::kBFloat16) return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
  return __half2float(static_cast<const __half*>(data)[i]);
}

__device__ int64_t OffsetOf(const StridedTensor<const void>& tensor, int sequence, int head, int64_t row) {
  return sequence * tensor.batch_stride + head * tensor.head_stride + row * tensor.row_stride;
}

// grid (ceil(seq_k / 128), rows): one thread per score.
__global__ void ScoreKernel(AttentionProblem p, const ReferenceRow* rows, const uint8_t* mask, double* scores) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= p.seq_k) return;
  const int64_t slot = static_cast<int64_t>(blockIdx.y) * p.seq_k + column;
  if (mask[slot] == 0) {
    scores[slot] = -INFINITY;
    return;
  }
  const ReferenceRow r = rows[blockIdx.y];
  const int kv_head = r.head / (p.num_qo_heads / p.num_kv_heads);
  const int64_t q = OffsetOf(p.q, r.sequence, r.head, r.row);
  const int64_t k = OffsetOf(p.k, r.sequence, kv_head, column);
  double sum = 0;
  for (int i = 0; i < p.head_dim; ++i) sum += Load(p.q.data, q + i, p.dtype) * Load(p.k.data, k + i, p.dtype);
  sum *= p.scale != 0 ? static_cast<double>(p.scale) : 1 / sqrt(static_cast<double>(p.head_dim));
  if (p.soft_cap > 0) sum = p.soft_cap * tanh(sum / p.soft_cap);
  scores[slot] = sum;
}

// One block per row, one thread per component; the problem states v_head_dim. sinks: [num_qo_heads] or null.
__global__ void OutputKernel(AttentionProblem p, const ReferenceRow* rows, const double* scores, const float* sinks,
                             double* o, double* lse, double* row_maxima) {
  const ReferenceRow r = rows[blockIdx.x];
  const double* const row_scores = scores + static_cast<int64_t>(blockIdx.x) * p.seq_k;
  __shared__ double partial[256];
  double row_max = -INFINITY;
  for (int c = threadIdx.x; c < p.seq_k; c += blockDim.x) row_max = fmax(row_max, row_scores[c]);
  partial[threadIdx.x] = row_max;
  __syncthreads();
  for (int i = 0; i < static_cast<int>(blockDim.x); ++i) row_max = fmax(row_max, partial[i]);
  if (threadIdx.x == 0) row_maxima[blockIdx.x] = row_max;

  if (sinks != nullptr) row_max = fmax(row_max, static_cast<double>(sinks[r.head]));

  const int kv_head = r.head / (p.num_qo_heads / p.num_kv_heads);
  const int component = threadIdx.x;
  double sum = sinks != nullptr ? exp(sinks[r.head] - row_max) : 0;
  double output = 0;
  for (int64_t c = 0; c < p.seq_k && component < p.v_head_dim; ++c) {
    if (row_scores[c] == -INFINITY) continue;
    const double weight = exp(row_scores[c] - row_max);
    sum += weight;
    output += weight * Load(p.v.data, OffsetOf(p.v, r.sequence, kv_head, c) + component, p.dtype);
  }
  if (component < p.v_head_dim)
    o[static_cast<int64_t>(blockIdx.x) * p.v_head_dim + component] = sum == 0 ? 0 : output / sum;
  if (component == 0) lse[blockIdx.x] = sum == 0 ? -INFINITY : row_max + log(sum);
}

// splitmix64, then Box and Muller.
__device__ float Normal(uint64_t seed, uint64_t i) {
  auto mix = [](uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  };
  const uint64_t bits = mix(mix(seed) + i);
  const float u = (static_cast<float>(bits >> 40) + 0.5f) * 0x1p-24f;
  const float v = static_cast<float>(bits & 0xffffff) * 0x1p-24f;
  return sqrtf(-2.0f * logf(u)) * cospif(2.0f * v);
}

__global__ void FillKernel(DType dtype, void* data, int64_t count, float factor, uint64_t seed) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    const float x = factor * Normal(seed, static_cast<uint64_t>(i));
    if (dtype == DType::kFloat32) static_cast<float*>(data)[i] = x;
    if (dtype == DType::kBFloat16) static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(x);
    if (dtype == DType::kFloat16) static_cast<__half*>(data)[i] = __float2half(x);
  }
}

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t size)
      : ok_(AllocateOnDevice(static_cast<int64_t>(size * sizeof(T)), "a reference", &memory_).ok()), size_(size) {}
  bool Upload(const std::vector<T>& values) {
    return ok_ && cudaMemcpy(data(), values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess;
  }
  bool Download(std::vector<T>* values) {
    values->resize(size_);
    return ok_ && cudaMemcpy(values->data(), data(), size_ * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess;
  }
  T* data() { return static_cast<T*>(memory_.get()); }

 private:
  DeviceMemory memory_;
  bool ok_;
  size_t size_;
};

// Four reads of a thread are under way together; what they bring goes nowhere.
__global__ void ReadKernel(const uint4* first, const uint4* second, int64_t count) {
  constexpr int kAtOnce = 4;
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  uint4 all = {};
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < 2 * count; i += kAtOnce * threads) {
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      const int64_t at = i + n * threads;
      if (at >= 2 * count) continue;
      const uint4 word = at < count ? first[at] : second[at - count];
      all = {all.x ^ word.x, all.y ^ word.y, all.z ^ word.z, all.w ^ word.w};
    }
  }
  // So that the compiler keeps the reads.
  if ((all.x & all.y & all.z & all.w) == 0xffffffffu) __nanosleep(1);
}

}  // namespace

bool ReferenceRowsOnGpu(const AttentionProblem& problem, const std::vector<ReferenceRow>& rows,
                        const std::vector<uint8_t>& mask, std::vector<double>* o, std::vector<double>* lse,
                        std::vector<double>* row_max) {
  DeviceArray<ReferenceRow> device_rows(rows.size());
  DeviceArray<uint8_t> device_mask(mask.size());
  DeviceArray<double> scores(mask.size());
  DeviceArray<double> device_o(rows.size() * static_cast<size_t>(problem.ValueDim()));
  DeviceArray<double> device_lse(rows.size()), device_row_max(rows.size());
  if (!device_rows.Upload(rows) || !device_mask.Upload(mask)) return false;
  const std::vector<float> sinks = problem.sinks == nullptr
                                       ? std::vector<float>(1)
                                       : std::vector<float>(problem.sinks, problem.sinks + problem.num_qo_heads);
  DeviceArray<float> device_sinks(sinks.size());
  if (!device_sinks.Upload(sinks)) return false;
  AttentionProblem stated = problem;
  stated.v_head_dim = problem.ValueDim();
  const dim3 grid(static_cast<unsigned>((problem.seq_k + 127) / 128), static_cast<unsigned>(rows.size()));
  ScoreKernel<<<grid, 128>>>(problem, device_rows.data(), device_mask.data(), scores.data());
  OutputKernel<<<static_cast<unsigned>(rows.size()), 256>>>(stated, device_rows.data(), scores.data(),
                                                            problem.sinks != nullptr ? device_sinks.data() : nullptr,
                                                            device_o.data(), device_lse.data(), device_row_max.data());
  return cudaGetLastError() == cudaSuccess && device_o.Download(o) && device_lse.Download(lse) &&
         (row_max == nullptr || device_row_max.Download(row_max));
}

bool FillNormal(DType dtype, void* data, int64_t count, float factor, uint64_t seed) {
  FillKernel<<<1024, 256>>>(dtype, data, count, factor, seed);
  return cudaGetLastError() == cudaSuccess;
}

bool ReadOnce(const void* first, const void* second, int64_t bytes_each) {
  ReadKernel<<<528, 512>>>(static_cast<const uint4*>(first), static_cast<const uint4*>(second),
                           bytes_each / int64_t{sizeof(uint4)});
  return cudaGetLastError() == cudaSuccess;
}

}  // namespace headscope::kernels::testing
