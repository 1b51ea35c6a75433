// What every CPU executor refuses, in one place.
#pragma once

#include "kernels/attention_problem.h"
#include "kernels/status.h"

namespace headscope::kernels {

// Sizes and pointers of q and k (and v, when `needs_values`) of a problem on the host. kInvalidArgument or kUnsupported
// with the field's name.
Status CheckProblem(const AttentionProblem& problem, bool needs_values);

// problem.scale, or its default head_dim^-0.5.
float EffectiveScale(const AttentionProblem& problem);

// A tensor's rows of one batch entry and head: data + element offset, rows row_stride elements apart.
struct HeadRows {
  const void* data;
  int64_t offset;
  int64_t row_stride;
};
inline HeadRows RowsOf(const StridedTensor<const void>& tensor, int64_t sequence, int64_t head) {
  return {tensor.data, sequence * tensor.batch_stride + head * tensor.head_stride, tensor.row_stride};
}

}  // namespace headscope::kernels
