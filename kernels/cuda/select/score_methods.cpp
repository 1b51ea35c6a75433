// SPDX-License-Identifier: Apache-2.0
// XAttention and SpargeAttn: a number for every block of 128 queries and causal key block, cut, write.
#include <algorithm>
#include <limits>
#include <string>

#include "current_device.h"
#include "hopper/tensor_map.h"
#include "internal/method_choices.h"
#include "select/antidiagonal.h"
#include "select/antidiagonal_clusters.h"
#include "select/block_scores.h"
#include "select/selection_call.h"
#include "select/top_blocks.h"

namespace headscope::kernels::selection {
namespace {

// Thread blocks of a launch, and warps that are counted like them.
Status CheckCount(const Call& call, const char* what, int64_t count) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 32;
  if (count <= kMost) return {};
  return {StatusCode::kUnsupported, std::string(what) + " is " + std::to_string(count) + ": the GPU selector takes " +
                                        std::to_string(kMost) + "; split the batch or select on the CPU (" +
                                        Describe(call.problem) + ")."};
}

// What the last two launches need, memory for the picks included.
struct Picks {
  TopBlocksParams top;
  ListArrays arrays;
};

Picks TakePicks(Call* call, int32_t key_block_log2) {
  const AttentionProblem& problem = call->problem;
  Picks picks;
  TopBlocksParams& top = picks.top;
  top.num_lists = static_cast<int32_t>(call->NumHeads());
  top.num_row_blocks = call->view.NumRowTiles();
  top.num_key_blocks = ((call->NumVisibleKeys() - 1) >> key_block_log2) + 1;
  top.seq_q = problem.seq_q;
  top.first_position = problem.first_position;
  top.key_block_log2 = key_block_log2;
  top.group_size = problem.GroupSize();
  top.words = BlockBitmapWords(top.num_key_blocks);
  // Every other block at most starts a run, and the diagonal cuts one.
  picks.arrays = TakeLists(call, call->view.NumLists(), top.num_key_blocks / 2 + 3, 0);
  top.bitmaps = call->workspace.Take<uint64_t>(call->NumHeads() * top.num_row_blocks * top.words);
  return picks;
}

Status LaunchPicks(const Call& call, const Picks& picks) {
  Status status = LaunchStatus(LaunchTopBlocks(picks.top, call.stream), "TopBlocksKernel", call);
  if (!status.ok()) return status;
  const TileBlockLists lists{picks.top.bitmaps, picks.top.key_block_log2, picks.top.words};
  return LaunchStatus(LaunchTileBlockLists(lists, ShapeOfLists(call), picks.arrays, call.stream), "WriteListsKernel",
                      call);
}

// The current device, which must hold a row of numbers in a thread block's shared memory.
Status FindDevice(const Call& call, const Picks& picks, CurrentDevice* device) {
  Status status = FindCurrentDevice(device);
  int shared_bytes = 0;
  if (status.ok()) {
    status = CudaStatus(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device->ordinal),
                        "asking for the GPU's shared memory");
  }
  if (!status.ok()) return status;
  const int32_t most = MostTopBlocks(static_cast<size_t>(shared_bytes));
  if (picks.top.num_key_blocks <= most) return {};
  return {StatusCode::kUnsupported,
          "first_position + seq_q is " + std::to_string(call.NumVisibleKeys()) + ": this selector takes " +
              std::to_string(int64_t{most} << picks.top.key_block_log2) + " keys on this GPU; select on the CPU."};
}

}  // namespace

Status SelectXAttention(Call* call) {
  const AttentionProblem& problem = call->problem;
  const ParameterValues& values = call->values;
  Picks picks = TakePicks(call, 7);
  picks.top.rule = BlockRule::kShare;
  picks.top.share = values.Real("tau");
  picks.top.force_ends = values.Flag("force_ends");
  AntidiagonalParams params;
  SetTensors(*call, &params);
  params.num_lists = picks.top.num_lists;
  params.num_visible_keys = call->NumVisibleKeys();
  params.stride_log2 = internal::AntidiagonalStrideLog2(values);
  params.tickets_per_list = params.CountTickets();
  SetScale(problem, problem.EffectiveScale() / static_cast<float>(1 << params.stride_log2), &params);
  params.partials = call->workspace.Take<float>(params.num_lists * params.PartialsPerList());
  params.masses =
      call->workspace.Take<float>(int64_t{params.num_lists} * params.NumRowBlocks() * params.NumKeyBlocks());
  params.progress = call->workspace.Take<unsigned long long>(1);
  picks.top.scores = params.masses;
  Status status =
      CheckCount(*call, "the number of row blocks of all heads", int64_t{params.num_lists} * params.NumRowBlocks());
  if (!status.ok() || !call->launches) return status;

  CurrentDevice device;
  status = FindDevice(*call, picks, &device);
  if (!status.ok()) return status;
  const bool is_bf16 = problem.dtype == DType::kBFloat16;
  const bool is_hopper = device.compute_capability == 90;
  if (is_hopper && ClustersTake(params) &&
      hopper::IsTmaAligned(problem.q, problem.batch, problem.num_qo_heads, problem.seq_q) &&
      hopper::IsTmaAligned(problem.k, problem.batch, problem.num_kv_heads, problem.seq_k)) {
    AntidiagonalClusterParams clusters{};
    clusters.shape = params;
    hopper::TensorMapShape groups{"q",           problem.dtype,    problem.batch,   problem.num_qo_heads,
                                  problem.seq_q, problem.head_dim, kTileQueryGroups};
    status = hopper::EncodeGroupMap(groups, params.stride_log2, problem.q, &clusters.q);
    groups.name = "k";
    groups.heads = problem.num_kv_heads;
    groups.rows = params.num_visible_keys;
    if (status.ok()) status = hopper::EncodeGroupMap(groups, params.stride_log2, problem.k, &clusters.k);
    if (!status.ok()) return status;
    status = LaunchStatus(LaunchAntidiagonalClusters(clusters, is_bf16, device.num_multiprocessors, call->stream),
                          "AntidiagonalClusterKernel", *call);
    if (status.ok()) status = LaunchStatus(LaunchBlockMass(params, call->stream), "BlockMassKernel", *call);
    return status.ok() ? LaunchPicks(*call, picks) : status;
  }
  const auto launch = is_hopper ? (is_bf16 ? LaunchAntidiagonalHopperBf16 : LaunchAntidiagonalHopperFp16)
                                : (is_bf16 ? LaunchAntidiagonalBf16 : LaunchAntidiagonalFp16);
  status = LaunchStatus(launch(params, device.num_multiprocessors, call->stream),
                        is_hopper ? "AntidiagonalHopperKernel" : "AntidiagonalKernel", *call);
  if (status.ok()) status = LaunchStatus(LaunchBlockMass(params, call->stream), "BlockMassKernel", *call);
  return status.ok() ? LaunchPicks(*call, picks) : status;
}

Status SelectSpargeAttn(Call* call) {
  const AttentionProblem& problem = call->problem;
  const ParameterValues& values = call->values;
  const bool by_mass = values.Choice<internal::SpargeRule>("rule") == internal::SpargeRule::kCdf;
  Picks picks = TakePicks(call, 6);
  TopBlocksParams& top = picks.top;
  top.rule = by_mass ? BlockRule::kWithin : BlockRule::kCount;
  top.share = values.Real("tau");
  top.count = std::max(1, static_cast<int32_t>(top.share * top.num_key_blocks + 1e-9));
  BlockScoresParams params;
  SetTensors(*call, &params);
  params.batch = problem.batch;
  params.is_bf16 = problem.dtype == DType::kBFloat16;
  params.num_visible_keys = call->NumVisibleKeys();
  SetScale(problem, problem.EffectiveScale(), &params);
  params.centre = values.Flag("centre");
  params.theta = values.Real("theta");
  params.likeness = params.theta >= 0;  // no likeness is negative
  params.by_largest = values.Choice<internal::SpargeSimilarity>("similarity") == internal::SpargeSimilarity::kByLargest;
  const int64_t q_blocks = params.NumLists() * params.NumQueryBlocks();
  const int64_t k_blocks = params.NumKvLists() * params.NumKeyBlocks();
  params.q_means = call->workspace.Take<float>(q_blocks * params.head_dim);
  params.k_means = call->workspace.Take<float>(k_blocks * params.head_dim);
  params.mean_keys = call->workspace.Take<float>(params.NumKvLists() * params.head_dim);
  params.scores = call->workspace.Take<float>(q_blocks * params.NumKeyBlocks());
  if (params.likeness) {
    params.q_alike = call->workspace.Take<uint8_t>(q_blocks);
    params.k_alike = call->workspace.Take<uint8_t>(k_blocks);
  }
  top.scores = params.scores;
  top.key_counts = params.k_alike;
  top.row_counts = params.q_alike;
  Status status = CheckCount(*call, "the number of blocks of rows in Q and K", params.NumBlocks());
  if (status.ok()) status = CheckCount(*call, "the number of 64 x 64 blocks' scores", params.NumScoreTiles());
  if (!status.ok() || !call->launches) return status;

  CurrentDevice device;
  status = FindDevice(*call, picks, &device);
  if (status.ok()) status = LaunchStatus(LaunchBlockScores(params, call->stream), "BlockScoresKernel", *call);
  return status.ok() ? LaunchPicks(*call, picks) : status;
}

}  // namespace headscope::kernels::selection
