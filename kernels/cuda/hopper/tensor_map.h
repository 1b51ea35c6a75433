// SPDX-License-Identifier: Apache-2.0
// TMA descriptors, made without linking libcuda: the encoder is looked up in the driver at run time.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "hopper/kernel_params.h"
#include "kernels/attention_problem.h"
#include "kernels/status.h"

namespace headscope::kernels::hopper {

// One tensor [batch, heads, rows, head_dim] of a 16-bit dtype, read or written in boxes of box_rows rows x 64
// components, 128-byte swizzled. What a box reads beyond a head's last row or component is zero; what it writes there
// is dropped.
struct TensorMapShape {
  const char* name = "";  // for messages
  DType dtype = DType::kBFloat16;
  int32_t batch = 0;
  int32_t heads = 0;
  int32_t rows = 0;
  int32_t head_dim = 0;
  int32_t box_rows = 0;
};

// The same tensor read by groups of neighbouring rows: boxes of one row of each of box_rows neighbouring groups, 64
// components. shape.rows are whole groups of 2^group_log2.
Status EncodeGroupMap(const TensorMapShape& shape, int32_t group_log2, const StridedTensor<const void>& tensor,
                      CUtensorMap* map);

Status EncodeTensorMap(const TensorMapShape& shape, const StridedTensor<const void>& tensor, CUtensorMap* map);

// The base and those strides that lead from one element to another are multiples of 16 bytes, as TMA asks.
bool IsTmaAligned(const StridedTensor<const void>& tensor, int32_t batch, int32_t heads, int32_t rows);

// An output's view, to look at where it lies.
inline StridedTensor<const void> Const(const StridedTensor<void>& tensor) {
  return {tensor.data, tensor.batch_stride, tensor.head_stride, tensor.row_stride};
}
// A tensor as kernels read or write single rows of it.
inline GatherSource Gather(const StridedTensor<const void>& tensor) {
  return {tensor.data, tensor.batch_stride, tensor.head_stride, tensor.row_stride};
}

}  // namespace headscope::kernels::hopper
