// SPDX-License-Identifier: Apache-2.0
#include "bench/host_tensors.h"

namespace headscope::app::bench {

void HostTensors::Download(BenchDevice& device, const kernels::AttentionProblem& of, bool with_values) {
  problem = of;
  const int64_t size = int64_t{of.batch} * kernels::SizeOf(of.dtype);
  const auto copy = [&](kernels::StridedTensor<const void>* tensor, int64_t bytes, std::vector<char>* to) {
    to->resize(static_cast<size_t>(bytes));
    device.Download(tensor->data, bytes, to->data());
    tensor->data = to->data();
  };
  copy(&problem.q, size * of.num_qo_heads * of.seq_q * of.head_dim, &q);
  copy(&problem.k, size * of.num_kv_heads * of.seq_k * of.head_dim, &k);
  problem.v = {};
  if (!with_values) return;
  problem.v = of.v;
  copy(&problem.v, size * of.num_kv_heads * of.seq_k * of.ValueDim(), &v);
}

}  // namespace headscope::app::bench
