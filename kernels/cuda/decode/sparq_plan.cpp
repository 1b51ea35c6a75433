// SPDX-License-Identifier: Apache-2.0
#include "decode/sparq_plan.h"

#include <algorithm>
#include <string>

namespace headscope::kernels::decode {
namespace {

int32_t Up(int32_t value, int32_t to) {
  return (value + to - 1) / to * to;
}

constexpr int32_t kMostResident = 2;    // blocks of a multiprocessor, as SparqKernel's registers allow
constexpr int32_t kSystemBytes = 1024;  // of every resident block

// Entries of a span's list of candidates: more than are selected, if few are, so that a span need not cut what the vote
// leaves, some 1.2 to 1.6 times as many, to the last token.
int32_t RoomyList(int32_t selected) {
  return Up(selected <= kMostVotes ? selected * 5 / 3 : selected, 8);
}

// Fills in where the parts of a block's shared memory are, and how deep the ring is. A ring of stages has what room the
// crews leave; a ring of tiles is as deep as leaves room for all resident blocks or, if that is hardly a ring, for one.
void LayOutShared(const AttentionProblem& problem, const SparqCudaOptions& options, const DecodeDevice& device,
                  SparqPlan* plan) {
  const int32_t group = problem.GroupSize();
  SparqPlan& x = *plan;
  const bool streams = Streams(x.path);
  const int32_t results = CrewThreads(x.path) / 32 * std::min(group, kMaxDenseGroup) * (problem.head_dim + 2) * 4;
  int32_t at = streams ? kCrewSharedBytes : kSparqSharedBytes;
  const auto take = [&](int32_t bytes) {
    const int32_t from = at;
    at = Up(at + bytes, 16);
    return from;
  };
  x.query_bytes = group * problem.head_dim * 2;
  x.query = take((streams ? 1 : 3) * x.query_bytes);
  x.weight_bytes = x.head_tiles * x.steps * 32 * 8;
  x.weight = take(2 * x.weight_bytes);
  x.list_key = take(x.list_stride * 4);
  x.list_index = take(x.list_stride * 4);
  x.list_source = take(streams ? 0 : x.list_stride * 4);
  x.token = take((x.selected + x.local) * 4);
  x.score_pitch = x.span_tokens + 4;
  if (streams) {
    // In the place of what selects, where there is room.
    x.merged = results <= kCrewSelectBytes ? 0 : take(results);
    x.crews = kStreamSharedBytes;
    x.crew_bytes = Up(at, 128);
    x.ring = x.crews + StreamCrews(x.path) * x.crew_bytes;
    x.stages = std::clamp((device.shared_of_block - x.ring) / kStageBytes, 1, MaxStages(x.path));
    x.rows = Up(options.rank, kStageRows);
    at = x.ring + x.stages * kStageBytes;
    x.shared_bytes = at;
    return;
  }
  x.scores = x.merged = take(std::max(group * x.score_pitch * 4, results));
  x.ring = at;
  if (x.path == SparqPath::kFewHeads) {
    constexpr int32_t kBatchBytes = kSparqWarps * 8 * kTileTokens * 2;
    const auto batches = [&](int32_t room) { return std::min((room - at) / kBatchBytes, int32_t{kMaxBatches}); };
    x.batches = batches(device.shared_of_multiprocessor / kMostResident - kSystemBytes);
    if (x.batches < kMaxBatches) x.batches = std::max(batches(device.shared_of_block), 1);
    at += x.batches * kBatchBytes;
    x.rows = x.steps * 16;
  }
  x.shared_bytes = at;
}

}  // namespace

Status PlanSparq(const AttentionProblem& problem, const SparqCudaOptions& options, bool whole_rows,
                 const DecodeDevice& device, SparqPlan* plan) {
  const int32_t group = problem.GroupSize();
  SparqPlan& x = *plan;
  x = {};
  if (group > kMaxGroup) {
    return {StatusCode::kUnsupported, "group size " + std::to_string(group) + ": SparQ on the GPU takes at most " +
                                          std::to_string(kMaxGroup) + " query heads per KV head"};
  }
  x.local = std::min({std::max(options.num_local, 0), options.num_tokens, problem.seq_k});
  x.selected = std::min(options.num_tokens, problem.seq_k) - x.local;
  x.lists = problem.batch * problem.num_kv_heads;
  x.path = whole_rows || group > kMaxFewHeads ? SparqPath::kManyHeads
           : group == 1 && device.bulk_copies ? SparqPath::kOneHead
                                              : SparqPath::kFewHeads;
  const bool streams = Streams(x.path), on_tensor_cores = !streams;
  x.steps = on_tensor_cores ? ((whole_rows ? problem.head_dim : options.rank) + 15) / 16 : 0;
  x.head_tiles = on_tensor_cores ? (group + 7) / 8 : 0;
  x.list_stride = Up(x.selected, 8);
  x.span_tokens = group <= 4 ? kSpanTokens : kSpanTokens / 2;
  x.num_spans = (problem.seq_k + x.span_tokens - 1) / x.span_tokens;
  x.by_spans = DivideBy(x.num_spans);
  x.by_kv_heads = DivideBy(problem.num_kv_heads);
  if (x.num_spans > 1 && x.num_spans * RoomyList(x.selected) <= kSpanTokens) x.list_stride = RoomyList(x.selected);
  x.waits = group > 1 && x.num_spans > 1 ? 1 : 0;
  if (x.waits != 0 && x.num_spans > device.num_multiprocessors) {
    return {StatusCode::kUnsupported, "seq_k " + std::to_string(problem.seq_k) + ": with " + std::to_string(group) +
                                          " query heads per KV head SparQ on this GPU takes at most " +
                                          std::to_string(x.span_tokens * device.num_multiprocessors) + " tokens"};
  }
  x.items = x.lists * x.num_spans;
  if (streams && x.items <= device.num_multiprocessors) x.path = SparqPath::kOneItem;
  LayOutShared(problem, options, device, plan);
  if (x.shared_bytes > device.shared_of_block) {
    return {StatusCode::kUnsupported,
            "num_tokens " + std::to_string(options.num_tokens) + " with " + std::to_string(group) +
                " query heads per KV head needs more shared memory than a block has; lower num_tokens"};
  }
  const int32_t resident =
      streams ? 1 : std::clamp(device.shared_of_multiprocessor / (x.shared_bytes + kSystemBytes), 1, kMostResident);
  // Without a ring a block gains nothing by staying: the GPU deals the items out. Who waits must be resident.
  x.blocks =
      streams || x.batches > 0 || x.waits != 0 ? std::min(x.items, resident * device.num_multiprocessors) : x.items;
  if (x.waits != 0) x.blocks = x.blocks / x.num_spans * x.num_spans;
  return {};
}

double SparqBehindDense(const AttentionProblem& problem, const SparqCudaOptions& options, bool whole_rows) {
  // Microseconds, fitted to steps on an H200 (2026-11-23, bf16, head_dim 64 and 128, groups of 1, 2, 4 and 8, batch 1
  // to 8, 512 to 65,536 tokens, r 16 to 64, k 64 to 512), with what it takes that no step that is chosen was more than
  // 3 % slower than dense: what a step costs whatever its size, per kept token, per kept token and million tokens of a
  // list (whose spans' candidates are merged), per kept token and billion estimated scores, and what a megabyte gives
  // back that dense reads and the step does not.
  struct Cost {
    double step, token, merged, scored, saved;
  };
  static constexpr Cost kTwoCopies[] = {
      {6.2, 0.0145, 0.525, 0, 0.238}, {9.0, 0.0221, 0.513, 0, 0.179}, {16.1, 0, 0.262, 21.1, 0.221}};
  static constexpr Cost kOneCopy[] = {
      {11.1, 0.0145, 1.61, 0, 0.214}, {18.6, 0.0221, 0, 0, 0.202}, {21.0, 0.0221, 0, 12.0, 0.162}};
  // Below, the best of them was 13 % faster than dense.
  constexpr int32_t kShortest = 1024;
  const int32_t group = problem.GroupSize();
  const Cost& cost = (whole_rows ? kOneCopy : kTwoCopies)[group == 1 ? 0 : group <= 4 ? 1 : 2];
  if (problem.seq_k < kShortest) return cost.step;
  const double lists = static_cast<double>(problem.batch) * problem.num_kv_heads;
  const double tokens = problem.seq_k, kept = std::min(options.num_tokens, problem.seq_k);
  const double of_estimate = whole_rows ? problem.head_dim : options.rank;
  const double bytes = static_cast<double>(SizeOf(problem.dtype));
  const double saved = lists * bytes * (tokens * (2 * problem.head_dim - of_estimate) - 2 * kept * problem.head_dim);
  return cost.step + cost.token * kept + cost.merged * 1e-6 * tokens * kept +
         cost.scored * 1e-9 * lists * group * tokens * kept - cost.saved * 1e-6 * saved;
}

SparqScratch LayOutScratch(const AttentionProblem& problem, const DecodeDevice& device, const SparqPlan& plan) {
  const size_t lists = static_cast<size_t>(plan.lists), group = static_cast<size_t>(problem.GroupSize());
  // As for roomy lists in any case: a shorter sequence may have these.
  const size_t spans = lists * static_cast<size_t>(plan.num_spans);
  const size_t candidates = plan.num_spans == 1 ? 0 : spans * static_cast<size_t>(RoomyList(plan.selected));
  SparqScratch layout{};
  const size_t zeroed = ZeroedBytes(problem, device),
               first = SendsCandidates(plan.path) ? CounterBytes(problem) : zeroed;
  size_t at = first;
  const auto take = [&](size_t bytes) {
    const size_t from = at;
    at += (bytes + 255) / 256 * 256;
    return from;
  };
  layout.key = take(4 * candidates);
  layout.token = take(4 * candidates);
  layout.value = take(group == 1 ? 0 : 4 * candidates * group);
  layout.softmax = take(16 * spans * group);
  layout.local_share = take(group == 1 ? 0 : 4 * lists * group);
  // As if nothing were sent: with one copy of K nothing is.
  layout.total = zeroed + at - first;
  return layout;
}

}  // namespace headscope::kernels::decode
