// SPDX-License-Identifier: Apache-2.0
#include "hopper/tensor_map.h"

#include <cuda_runtime_api.h>

#include <string>

#include "kernels/cuda_resources.h"

namespace headscope::kernels::hopper {
namespace {

using Encoder = decltype(&cuTensorMapEncodeTiled);

Status FindEncoder(Encoder* encoder) {
  void* pointer = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  Status status =
      CudaStatus(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &pointer, 12000, cudaEnableDefault, &found),
                 "looking for cuTensorMapEncodeTiled in the driver");
  if (!status.ok()) return status;
  if (found != cudaDriverEntryPointSuccess || pointer == nullptr) {
    return {StatusCode::kDeviceMissing, "the GPU driver has no cuTensorMapEncodeTiled: install a driver for CUDA 13."};
  }
  *encoder = reinterpret_cast<Encoder>(pointer);
  return {};
}

}  // namespace

bool IsTmaAligned(const StridedTensor<const void>& tensor, int32_t batch, int32_t heads, int32_t rows) {
  auto whole = [](int32_t extent, int64_t stride) { return extent == 1 || stride * 2 % 16 == 0; };
  return reinterpret_cast<uintptr_t>(tensor.data) % 16 == 0 && whole(rows, tensor.row_stride) &&
         whole(heads, tensor.head_stride) && whole(batch, tensor.batch_stride);
}

Status EncodeTensorMap(const TensorMapShape& shape, const StridedTensor<const void>& tensor, CUtensorMap* map) {
  return EncodeGroupMap(shape, /*group_log2=*/0, tensor, map);
}

Status EncodeGroupMap(const TensorMapShape& shape, int32_t group_log2, const StridedTensor<const void>& tensor,
                      CUtensorMap* map) {
  Encoder encode = nullptr;
  if (Status status = FindEncoder(&encode); !status.ok()) return status;
  // A dimension of one element may carry any stride, also 0, which TMA refuses.
  auto bytes = [](int32_t extent, int64_t stride, cuuint64_t fallback) {
    return extent > 1 ? static_cast<cuuint64_t>(stride) * 2 : fallback;
  };
  const int32_t in_group = 1 << group_log2;
  const auto head_dim = static_cast<cuuint64_t>(shape.head_dim);
  const cuuint64_t row_bytes = bytes(shape.rows, tensor.row_stride, head_dim * 2);
  const cuuint64_t head_bytes = bytes(shape.heads, tensor.head_stride, row_bytes);
  const cuuint64_t batch_bytes = bytes(shape.batch, tensor.batch_stride, head_bytes);
  const auto groups = static_cast<cuuint64_t>(shape.rows >> group_log2), heads = static_cast<cuuint64_t>(shape.heads),
             batch = static_cast<cuuint64_t>(shape.batch);
  const auto box_rows = static_cast<cuuint32_t>(shape.box_rows);
  const cuuint32_t element_strides[5] = {1, 1, 1, 1, 1};
  const CUtensorMapDataType type =
      shape.dtype == DType::kBFloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  const auto encode_as = [&](cuuint32_t dimensions, const cuuint64_t* dims, const cuuint64_t* strides,
                             const cuuint32_t* box) {
    return encode(map, type, dimensions, const_cast<void*>(tensor.data), dims, strides, box, element_strides,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  CUresult result = CUDA_SUCCESS;
  if (group_log2 == 0) {
    const cuuint64_t dims[4] = {head_dim, groups, heads, batch};
    const cuuint64_t strides[3] = {row_bytes, head_bytes, batch_bytes};
    const cuuint32_t box[4] = {64, box_rows, 1, 1};
    result = encode_as(4, dims, strides, box);
  } else {
    const cuuint64_t dims[5] = {head_dim, static_cast<cuuint64_t>(in_group), groups, heads, batch};
    const cuuint64_t strides[4] = {row_bytes, row_bytes * static_cast<cuuint64_t>(in_group), head_bytes, batch_bytes};
    const cuuint32_t box[5] = {64, 1, box_rows, 1, 1};
    result = encode_as(5, dims, strides, box);
  }
  if (result == CUDA_SUCCESS) return {};
  return {StatusCode::kInvalidArgument,
          std::string(shape.name) + ": the GPU's copy engine refuses its strides (" +
              std::to_string(tensor.row_stride) + ", " + std::to_string(tensor.head_stride) + ", " +
              std::to_string(tensor.batch_stride) + " elements; CUresult " + std::to_string(static_cast<int>(result)) +
              "): pass a tensor with positive strides below 2^39 elements."};
}

}  // namespace headscope::kernels::hopper
