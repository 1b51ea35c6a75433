// SPDX-License-Identifier: Apache-2.0
// Between kernels' SparseIndex and data's index files.
#include <bit>

#include "base/errors.h"
#include "base/quoted_text.h"
#include "bench/workload.h"
#include "choices/saved_index.h"
#include "data/trace_schema.h"

namespace headscope::app::bench {
namespace {

using kernels::SparseIndex;

[[noreturn]] void Refuse(const std::string& path, const std::string& problem) {
  throw BadInputError(
      {.file = path, .problem = problem, .remedy = "write it again with `headscope bench --save-index`"});
}

}  // namespace

Group ReadGroup(const std::string& path) {
  const data::IndexFile file = data::ReadIndexFile(path);
  if (file.recipe != kernels::kSeededRecipe) {
    Refuse(path, "attribute recipe is " + Quoted(file.recipe) + "; this headscope makes " + kernels::kSeededRecipe);
  }
  if (!file.heads.empty()) Refuse(path, "/heads: the index is of a trace's heads, and a benchmark takes one layer's");
  if (file.seq_q != file.seq_k || file.first_position != 0) {
    Refuse(path, "seq_q is " + std::to_string(file.seq_q) + ", seq_k " + std::to_string(file.seq_k) +
                     " and first_position " + std::to_string(file.first_position) +
                     ": the index must be of a whole prompt");
  }
  if (file.num_kv_heads < 1 || file.num_qo_heads < 1 || file.num_qo_heads % file.num_kv_heads != 0) {
    Refuse(path, "num_qo_heads " + std::to_string(file.num_qo_heads) + " is not a multiple of num_kv_heads " +
                     std::to_string(file.num_kv_heads));
  }
  if (file.head_dim < 1 || file.head_dim > 256 || file.head_dim % 8 != 0) {
    Refuse(path, "head_dim is " + std::to_string(file.head_dim) + ", must be a multiple of 8 up to 256");
  }
  if (file.mask_kind == static_cast<int32_t>(kernels::MaskKind::kNone)) {
    Refuse(path, "mask_kind is 0: only causal indices can be compared with causal dense attention");
  }
  Group group;
  group.dtype = KernelTypeOf<kernels::DType>(file.dtype);
  group.shape = {.seed = std::bit_cast<uint64_t>(file.seed),
                 .batch = file.batch,
                 .num_qo_heads = file.num_qo_heads,
                 .num_kv_heads = file.num_kv_heads,
                 .head_dim = file.head_dim,
                 .seq_q = file.seq_q,
                 .seq_k = file.seq_k};
  Workload workload;
  workload.name = file.method;
  workload.saved = std::make_shared<SparseIndex>(IndexOf(path, file));
  group.workloads.push_back(std::move(workload));
  return group;
}

data::IndexFile ToFile(const Group& group, const Workload& workload, const SparseIndex& index) {
  data::IndexFile file;
  // A registered method with all its parameters, whatever was typed: defaults may change.
  file.method = workload.prefill == nullptr ? workload.name : workload.prefill->spec().name + ":" + workload.parameters;
  file.recipe = kernels::kSeededRecipe;
  file.dtype = ElementTypeOf(group.dtype);
  file.seed = std::bit_cast<int64_t>(group.shape.seed);
  file.batch = group.shape.batch;
  file.num_qo_heads = group.shape.num_qo_heads;
  file.num_kv_heads = group.shape.num_kv_heads;
  file.head_dim = group.shape.head_dim;
  SetIndexShape(index, &file);
  AppendIndexLists(index, &file);
  return file;
}

}  // namespace headscope::app::bench
