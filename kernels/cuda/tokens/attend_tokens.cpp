// SPDX-License-Identifier: Apache-2.0
// The host side of attention over chosen tokens: checks and launches.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>

#include "current_device.h"
#include "device_memory.h"
#include "device_pointers.h"
#include "hopper/tensor_map.h"
#include "kernels/cuda_resources.h"
#include "kernels/cuda_tokens.h"
#include "problem_check.h"
#include "refusals.h"
#include "tokens/token_params.h"

namespace headscope::kernels {
namespace {

Status CheckSizes(const TokenAttention& a) {
  for (const auto& [name, value] : {std::pair{"num_queries", a.num_queries},
                                    {"num_keys", a.num_keys},
                                    {"num_qo_heads", a.num_qo_heads},
                                    {"list_length", a.list_length}}) {
    if (value < 1 || value > 1 << 28) {
      return InvalidStatus(std::string(name) + " is " + std::to_string(value) + ": it must be from 1 to 2^28.");
    }
  }
  const int64_t items = int64_t{a.num_queries} * ((a.num_qo_heads + tokens::kHeadRows - 1) / tokens::kHeadRows);
  if (items > std::numeric_limits<int32_t>::max()) {
    return InvalidStatus("num_queries is " + std::to_string(a.num_queries) + " and num_qo_heads " +
                         std::to_string(a.num_qo_heads) + ": their blocks of " + std::to_string(tokens::kHeadRows) +
                         " heads must number less than 2^31.");
  }
  if (!(a.scale > 0) || !std::isfinite(a.scale)) {
    return InvalidStatus("scale is " + std::to_string(a.scale) + ": it must be above 0 and finite.");
  }
  return {};
}

// Strides are in elements; `rows` of `dim` elements each.
Status CheckStride(const char* name, int32_t rows, int64_t stride, int64_t dim) {
  if (rows == 1 || (stride >= dim && stride % 8 == 0)) return {};
  return InvalidStatus(std::string(name) + " is " + std::to_string(stride) +
                       " elements: it must be a multiple of 8 and at least " + std::to_string(dim) + ".");
}

Status CheckTensors(const TokenAttention& a) {
  for (const Status& status : {CheckPointer("q", a.q, 16), CheckPointer("kv", a.kv, 16), CheckPointer("o", a.o, 16),
                               CheckPointer("tokens", a.tokens, alignof(int32_t)),
                               CheckStride("q_head_stride", a.num_qo_heads, a.q_head_stride, kLatentKeyDim),
                               CheckStride("q_query_stride", a.num_queries, a.q_query_stride, kLatentKeyDim),
                               CheckStride("kv_stride", a.num_keys, a.kv_stride, kLatentKeyDim),
                               CheckStride("o_head_stride", a.num_qo_heads, a.o_head_stride, kLatentValueDim),
                               CheckStride("o_query_stride", a.num_queries, a.o_query_stride, kLatentValueDim)}) {
    if (!status.ok()) return status;
  }
  if (a.num_queries > 1 && a.tokens_stride < a.list_length) {
    return InvalidStatus("tokens_stride is " + std::to_string(a.tokens_stride) + ": lists have " +
                         std::to_string(a.list_length) + " entries.");
  }
  // No two rows of the output may share memory, whichever of heads and queries lies inside the other.
  const bool heads_inside = a.o_query_stride >= int64_t{a.num_qo_heads - 1} * a.o_head_stride + kLatentValueDim;
  const bool queries_inside = a.o_head_stride >= int64_t{a.num_queries - 1} * a.o_query_stride + kLatentValueDim;
  if (a.num_queries > 1 && a.num_qo_heads > 1 && !heads_inside && !queries_inside) {
    return InvalidStatus("o has strides of " + std::to_string(a.o_query_stride) + " and " +
                         std::to_string(a.o_head_stride) + " elements: rows of queries and heads overlap.");
  }
  for (const auto& [name, pointer] : {std::pair<const char*, const void*>{"counts", a.counts},
                                      {"sinks", a.sinks},
                                      {"lse", a.lse},
                                      {"row_max", a.row_max}}) {
    if (pointer == nullptr) continue;
    if (Status status = CheckPointer(name, pointer, 4); !status.ok()) return status;
  }
  return {};
}

}  // namespace

Status AttendTokensCuda(const TokenAttention& attention, void* stream) {
  const TokenAttention& a = attention;
  if (Status status = CheckSizes(a); !status.ok()) return status;
  if (Status status = CheckTensors(a); !status.ok()) return status;
  CurrentDevice device;
  if (Status status = FindCurrentDevice(&device); !status.ok()) return status;
  if (device.compute_capability != 90) {
    return {StatusCode::kUnsupported,
            "the GPU has compute capability " + std::to_string(device.compute_capability / 10) + "." +
                std::to_string(device.compute_capability % 10) + ": attention over chosen tokens needs 9.0."};
  }
  if (Status status = CheckOnDevice({{"q", a.q},
                                     {"kv", a.kv},
                                     {"tokens", a.tokens},
                                     {"counts", a.counts},
                                     {"sinks", a.sinks},
                                     {"o", a.o},
                                     {"lse", a.lse},
                                     {"row_max", a.row_max}},
                                    stream);
      !status.ok()) {
    return status;
  }

  tokens::TokenParams params{};
  const hopper::TensorMapShape shape{"q",           DType::kBFloat16, 1, a.num_queries, a.num_qo_heads,
                                     kLatentKeyDim, tokens::kHeadRows};
  if (Status status = hopper::EncodeTensorMap(shape, {a.q, 0, a.q_query_stride, a.q_head_stride}, &params.q);
      !status.ok()) {
    return status;
  }
  params.kv = a.kv;
  params.kv_stride = a.kv_stride;
  params.tokens = a.tokens;
  params.tokens_stride = a.tokens_stride;
  params.counts = a.counts;
  params.sinks = a.sinks;
  params.o = a.o;
  params.o_query_stride = a.o_query_stride;
  params.o_head_stride = a.o_head_stride;
  params.lse = a.lse;
  params.scale = a.scale;
  params.scale_log2 = a.scale * std::numbers::log2e_v<float>;
  params.num_queries = a.num_queries;
  params.num_keys = a.num_keys;
  params.num_qo_heads = a.num_qo_heads;
  params.list_length = a.list_length;
  params.head_blocks = (a.num_qo_heads + tokens::kHeadRows - 1) / tokens::kHeadRows;
  params.num_items = params.head_blocks * a.num_queries;
  params.by_head_blocks = DivideBy(params.head_blocks);

  const std::string what = "AttendTokensKernel (" + std::to_string(a.num_queries) + " queries, " +
                           std::to_string(a.num_qo_heads) + " heads, lists of " + std::to_string(a.list_length) + ")";
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  cudaMemPool_t pool = nullptr;
  if (Status status = FindScratchPool(device.ordinal, &pool); !status.ok()) return status;
  const int64_t rows = a.row_max != nullptr ? 0 : int64_t{a.num_queries} * a.num_qo_heads;
  const auto bytes = static_cast<size_t>(rows + params.num_items + 1) * sizeof(int32_t);
  void* scratch = nullptr;
  Status status = CudaStatus(cudaMallocFromPoolAsync(&scratch, bytes, pool, cuda_stream),
                             "allocating " + std::to_string(bytes) + " bytes for largest scores");
  if (!status.ok()) return status;
  params.again = static_cast<int32_t*>(scratch);
  params.row_max = a.row_max != nullptr ? a.row_max : static_cast<float*>(scratch) + params.num_items + 1;
  status = CudaStatus(cudaMemsetAsync(params.again, 0, sizeof(int32_t), cuda_stream), what);
  for (const bool again : {false, true}) {
    if (!status.ok()) break;
    const int num_blocks = std::min(device.num_multiprocessors, params.num_items);
    status = CudaStatus(tokens::LaunchAttendTokens(params, num_blocks, again, cuda_stream), what);
  }
  const cudaError_t freed = cudaFreeAsync(scratch, cuda_stream);
  if (status.ok()) status = CudaStatus(freed, "freeing largest scores");
  return status;
}

}  // namespace headscope::kernels
