// SPDX-License-Identifier: Apache-2.0
// Packed sequences: checks, the tensors' descriptors and the launch.
#include <algorithm>
#include <limits>
#include <string>

#include "current_device.h"
#include "device_pointers.h"
#include "hopper/fill_params.h"
#include "hopper/packed_instances.h"
#include "hopper/packed_params.h"
#include "hopper/tensor_map.h"
#include "hopper/work_queue.h"
#include "kernels/cuda_packed.h"
#include "kernels/cuda_resources.h"
#include "problem_check.h"

namespace headscope::kernels {
namespace {

using hopper::Const;
using hopper::PackedParams;
using hopper::TensorMapShape;

Status Invalid(const std::string& field, int64_t value, const std::string& allowed) {
  return {StatusCode::kInvalidArgument, field + " is " + std::to_string(value) + ": " + allowed + "."};
}
Status UnsupportedPacked(const std::string& sentence) {
  return {StatusCode::kUnsupported, sentence + "; attend the sequences one by one."};
}

// The tensors as they lie: all queries one sequence, keys and values one or as many as there are pages.
struct Tensors {
  AttentionProblem queries;  // of q and o
  AttentionProblem keys;     // of k and v: batch pages of seq_k rows
};
Tensors AsTheyLie(const AttentionProblem& problem, const PackedSequences& sequences) {
  Tensors tensors{problem, problem};
  tensors.queries.batch = 1;
  tensors.queries.seq_q = sequences.total_q;
  const bool paged = sequences.page_table != nullptr;
  tensors.keys.batch = paged ? sequences.num_pages : 1;
  tensors.keys.seq_k = paged ? sequences.page_size : sequences.total_k;
  return tensors;
}

Status CheckSequences(const AttentionProblem& problem, const PackedSequences& sequences) {
  for (const Status& status : {CheckPointer("sequences.q_begin", sequences.q_begin, alignof(int32_t)),
                               CheckPointer("sequences.k_begin", sequences.k_begin, alignof(int32_t))}) {
    if (!status.ok()) return status;
  }
  if (sequences.total_q < problem.seq_q) {
    return Invalid("sequences.total_q", sequences.total_q,
                   "the longest sequence has " + std::to_string(problem.seq_q) + " queries");
  }
  if (problem.first_position != 0) {
    return Invalid("first_position", problem.first_position,
                   "must be 0: a sequence's last query stands at its last key");
  }
  if (sequences.page_table == nullptr) {
    if (sequences.total_k >= problem.seq_k) return {};
    return Invalid("sequences.total_k", sequences.total_k,
                   "the longest sequence has " + std::to_string(problem.seq_k) + " keys");
  }
  if (Status status = CheckPointer("sequences.page_table", sequences.page_table, alignof(int32_t)); !status.ok()) {
    return status;
  }
  if (sequences.page_size < hopper::kPieceRows || sequences.page_size % hopper::kPieceRows != 0) {
    return Invalid("sequences.page_size", sequences.page_size, "must be a multiple of 16");
  }
  if (sequences.num_pages < 1) return Invalid("sequences.num_pages", sequences.num_pages, "must be 1 or more");
  if (int64_t{sequences.pages_per_sequence} * sequences.page_size < problem.seq_k) {
    return Invalid("sequences.pages_per_sequence", sequences.pages_per_sequence,
                   "the longest sequence has " + std::to_string(problem.seq_k) + " keys");
  }
  constexpr int64_t kPlacesEnd = std::numeric_limits<int32_t>::max() - 255;
  if (int64_t{sequences.num_pages} * sequences.page_size > kPlacesEnd) {
    return Invalid("sequences.num_pages", sequences.num_pages,
                   "all pages together may have " + std::to_string(kPlacesEnd) + " keys");
  }
  return {};
}

Status CheckTaken(const AttentionProblem& problem, const CurrentDevice& device) {
  if (device.compute_capability != 90) {
    return UnsupportedPacked("the GPU has compute capability " + std::to_string(device.compute_capability / 10) + "." +
                             std::to_string(device.compute_capability % 10) + ": packed sequences take 9.0");
  }
  if (problem.dtype == DType::kFloat32) return UnsupportedPacked("dtype is fp32: packed sequences take bf16 and fp16");
  if ((problem.head_dim != 64 && problem.head_dim != 128) || problem.ValueDim() != problem.head_dim) {
    return UnsupportedPacked("head_dim is " + std::to_string(problem.head_dim) + " and v_head_dim " +
                             std::to_string(problem.ValueDim()) + ": packed sequences take 64 and 128, equal ones");
  }
  return {};
}

struct NamedTensor {
  const char* name;
  StridedTensor<const void> tensor;
  int32_t batch, heads, rows;
};

Status CheckAligned(const NamedTensor& t, int32_t head_dim) {
  if (Status status = CheckPointer(std::string(t.name) + ".data", t.tensor.data, 2); !status.ok()) return status;
  if (!hopper::IsTmaAligned(t.tensor, t.batch, t.heads, t.rows)) {
    return UnsupportedPacked(std::string(t.name) + " is not aligned to 16 bytes in its base and its strides");
  }
  for (const auto& [field, stride, count] : {std::tuple{".row_stride", t.tensor.row_stride, t.rows},
                                             {".head_stride", t.tensor.head_stride, t.heads},
                                             {".batch_stride", t.tensor.batch_stride, t.batch}}) {
    if (count > 1 && stride < head_dim) {
      return Invalid(std::string(t.name) + field, stride,
                     "must be at least head_dim (" + std::to_string(head_dim) + " elements)");
    }
  }
  return {};
}

Status EncodeMaps(const Tensors& tensors, const AttentionOutput& output, int32_t item_rows, PackedParams* params) {
  const AttentionProblem& q = tensors.queries;
  TensorMapShape rows{"q", q.dtype, 1, q.num_qo_heads, q.seq_q, q.head_dim, item_rows};
  Status status = hopper::EncodeTensorMap(rows, q.q, &params->q);
  rows.name = "output.o";
  rows.box_rows = hopper::kOutputRows;
  if (status.ok()) status = hopper::EncodeTensorMap(rows, Const(output.o), &params->o);
  const AttentionProblem& kv = tensors.keys;
  const auto encode = [&](int32_t box_rows, CUtensorMap* k, CUtensorMap* v) {
    // A box is no longer than a page: longer ones are never asked for.
    TensorMapShape keys{"k", kv.dtype, kv.batch, kv.num_kv_heads, kv.seq_k, kv.head_dim, box_rows};
    if (status.ok()) status = hopper::EncodeTensorMap(keys, kv.k, k);
    keys.name = "v";
    if (status.ok()) status = hopper::EncodeTensorMap(keys, kv.v, v);
  };
  constexpr int32_t kBoxRows[hopper::kBoxKinds] = {4 * hopper::kSegmentRows, 2 * hopper::kSegmentRows,
                                                   hopper::kSegmentRows};
  for (int kind = 0; kind < hopper::kBoxKinds; ++kind) {
    encode(kBoxRows[kind], &params->k_boxes[kind], &params->v_boxes[kind]);
  }
  encode(hopper::kPieceRows, &params->k_pieces, &params->v_pieces);
  return status;
}

}  // namespace

Status AttendPackedCuda(const AttentionProblem& problem, const PackedSequences& sequences, const SparseIndexView& index,
                        const AttentionOutput& output, void* stream) {
  for (const Status& status : {CheckShape(problem), CheckNoWindow(problem), CheckSequences(problem, sequences)}) {
    if (!status.ok()) return status;
  }
  CurrentDevice device;
  if (Status status = FindCurrentDevice(&device); !status.ok()) return status;
  if (Status status = CheckTaken(problem, device); !status.ok()) return status;
  const Tensors tensors = AsTheyLie(problem, sequences);
  const AttentionProblem& kv = tensors.keys;
  for (const NamedTensor& tensor :
       {NamedTensor{"q", problem.q, 1, problem.num_qo_heads, sequences.total_q},
        NamedTensor{"k", problem.k, kv.batch, problem.num_kv_heads, kv.seq_k},
        NamedTensor{"v", problem.v, kv.batch, problem.num_kv_heads, kv.seq_k},
        NamedTensor{"output.o", Const(output.o), 1, problem.num_qo_heads, sequences.total_q}}) {
    if (Status status = CheckAligned(tensor, problem.head_dim); !status.ok()) return status;
  }
  if (Status status = CheckDisjoint("output.o", output.o, tensors.queries); !status.ok()) return status;
  if (Status status = CheckRowOutputs(output); !status.ok()) return status;
  if (Status status = CheckIndex(problem, index); !status.ok()) return status;
  if (Status status = CheckProblemOnDevice(problem, index, output, stream); !status.ok()) return status;
  if (Status status = CheckOnDevice({{"sequences.q_begin", sequences.q_begin},
                                     {"sequences.k_begin", sequences.k_begin},
                                     {"sequences.page_table", sequences.page_table}},
                                    stream);
      !status.ok()) {
    return status;
  }

  const bool is_rare = problem.soft_cap > 0 || output.row_max != nullptr;
  const bool is_dense = !is_rare && index.keeps_everything && index.rule.kind == MaskKind::kCausal;
  const int32_t item_rows = is_dense ? hopper::PackedDenseRows(problem.head_dim) : hopper::kItemRows;
  PackedParams params{};
  if (Status status = EncodeMaps(tensors, output, item_rows, &params); !status.ok()) return status;
  params.k_gather = hopper::Gather(problem.k);
  params.v_gather = hopper::Gather(problem.v);
  params.o_rows = hopper::Gather(Const(output.o));
  hopper::FillParams(problem, index, output, &params);
  params.q_begin = sequences.q_begin;
  params.k_begin = sequences.k_begin;
  params.page_table = sequences.page_table;
  params.pages_per_sequence = sequences.pages_per_sequence;
  params.page_rows = kv.seq_k;
  params.by_page_rows = DivideBy(kv.seq_k);
  params.num_places = kv.batch * kv.seq_k;
  params.total_q = sequences.total_q;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  const int64_t bytes_per_kv_head = SizeOf(problem.dtype) * problem.seq_k * int64_t{2} * problem.head_dim;
  if (is_dense) {
    return hopper::LaunchOnEverything(
        problem, item_rows, bytes_per_kv_head, device, "AttendPackedKernel", cuda_stream, &params, [&](int num_blocks) {
          return hopper::LaunchPackedDense(problem.dtype, problem.head_dim, params, num_blocks, cuda_stream);
        });
  }
  return hopper::LaunchWithQueue(problem, index, bytes_per_kv_head, device, "AttendPackedKernel", cuda_stream, &params,
                                 [&](int num_blocks) {
                                   const auto launch = is_rare ? hopper::LaunchPackedRare : hopper::LaunchPacked;
                                   return launch(problem.dtype, problem.head_dim, params, num_blocks, cuda_stream);
                                 });
}

}  // namespace headscope::kernels
