// SPDX-License-Identifier: Apache-2.0
// Writes one seeded tensor to stdout as raw bytes, for tests/oracle/seeded_problem.py:
//   kernels_seeded_dump SEED BATCH QO_HEADS KV_HEADS HEAD_DIM SEQ_Q SEQ_K q|k|v fp32|bf16|fp16
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/seeded_problem.h"

int main(int argc, char** argv) {
  using namespace headscope::kernels;
  if (argc != 10) {
    std::fputs("usage: kernels_seeded_dump SEED BATCH QO_HEADS KV_HEADS HEAD_DIM SEQ_Q SEQ_K q|k|v fp32|bf16|fp16\n",
               stderr);
    return 2;
  }
  const SeededProblem problem{.seed = std::strtoull(argv[1], nullptr, 10),
                              .batch = std::atoi(argv[2]),
                              .num_qo_heads = std::atoi(argv[3]),
                              .num_kv_heads = std::atoi(argv[4]),
                              .head_dim = std::atoi(argv[5]),
                              .seq_q = std::atoi(argv[6]),
                              .seq_k = std::atoi(argv[7])};
  const std::string tensor_name = argv[8];
  const std::string dtype_name = argv[9];
  const SeededTensor tensor = tensor_name == "q"   ? SeededTensor::kQuery
                              : tensor_name == "k" ? SeededTensor::kKey
                                                   : SeededTensor::kValue;
  const DType dtype = dtype_name == "fp32"   ? DType::kFloat32
                      : dtype_name == "bf16" ? DType::kBFloat16
                                             : DType::kFloat16;
  std::vector<char> out(static_cast<size_t>(ElementCount(problem, tensor) * SizeOf(dtype)));
  const Status status = FillSeeded(problem, tensor, dtype, {}, out.data());
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 1;
  }
  return std::fwrite(out.data(), 1, out.size(), stdout) == out.size() ? 0 : 1;
}
