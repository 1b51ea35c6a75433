#include "decode/sparq_plan.h"

#include <algorithm>
#include <string>

namespace headscope::kernels::decode {
namespace {

constexpr int32_t kSharedOfBlock = 227 * 1024;  // of a Hopper multiprocessor, at most

int32_t Up(int32_t value, int32_t to) {
  return (value + to - 1) / to * to;
}

}  // namespace

Status PlanSparq(const AttentionProblem& problem, const SparqCudaOptions& options, bool whole_rows, SparqPlan* plan) {
  const int32_t group = problem.GroupSize();
  SparqPlan& x = *plan;
  x = {};
  if (group > kMaxGroup) {
    return {StatusCode::kUnsupported, "group size " + std::to_string(group) + ": SparQ on the GPU takes at most " +
                                          std::to_string(kMaxGroup) + " query heads per KV head"};
  }
  x.local = std::min({std::max(options.num_local, 0), options.num_tokens, problem.seq_k});
  x.selected = std::min(options.num_tokens, problem.seq_k) - x.local;
  x.capacity = std::max(kSparqThreads, Up(2 * x.selected, kSparqThreads));
  x.lists = problem.batch * problem.num_kv_heads;
  x.head_tiles = (group + 3) / 4;

  x.steps = (whole_rows ? problem.head_dim : options.rank + 15) / 16;
  x.span_tokens = group <= 8 ? 4096 : 2048;
  x.num_spans = (problem.seq_k + x.span_tokens - 1) / x.span_tokens;
  while (group > 1 && x.num_spans > kMaxSpans) {
    x.span_tokens *= 2;
    x.num_spans = (problem.seq_k + x.span_tokens - 1) / x.span_tokens;
  }
  x.clustered = group > 1 && x.num_spans > 1 ? 1 : 0;
  const int32_t most_tokens = kMaxSpans * (group <= 4 ? 8192 : group <= 8 ? 4096 : 2048);
  if (group > 1 && problem.seq_k > most_tokens) {
    return {StatusCode::kUnsupported, "seq_k " + std::to_string(problem.seq_k) + ": with " + std::to_string(group) +
                                          " query heads per KV head SparQ on the GPU takes at most " +
                                          std::to_string(most_tokens) + " tokens"};
  }
  int32_t at = kSparqSharedBytes;
  const auto take = [&](int32_t bytes) {
    const int32_t from = at;
    at = Up(at + bytes, 16);
    return from;
  };
  x.component = take(kMaxRank * 4);
  x.weight = take(x.head_tiles * x.steps * 32 * 8);
  x.exact_weight = take(4 * kMaxRank * 4);
  x.list_key = take(x.capacity * 8);
  x.list_source = take(x.capacity * 4);
  x.token = take((x.selected + x.local) * 4);
  x.source = take(x.selected * 4);
  x.score_pitch = x.span_tokens + 4;
  // A tile of K and V for each warp, and then the warps' partial outputs, take the scores' place in the end.
  const int32_t tiles = kSparqWarps * 2 * 16 * problem.head_dim * 2;
  const int32_t outputs = kSparqWarps * std::min(group, kMaxDenseGroup) * (problem.head_dim + 2) * 4;
  x.scores = take(std::max({group * x.score_pitch * 4, tiles, outputs}));
  x.shared_bytes = at;
  if (x.shared_bytes > kSharedOfBlock) {
    return {StatusCode::kUnsupported,
            "num_tokens " + std::to_string(options.num_tokens) + " with " + std::to_string(group) +
                " query heads per KV head needs more shared memory than a block has; lower num_tokens"};
  }
  return {};
}

SparqScratch LayOutScratch(const AttentionProblem& problem, const SparqPlan& plan) {
  const size_t lists = static_cast<size_t>(plan.lists), group = static_cast<size_t>(problem.GroupSize());
  const size_t spans = lists * static_cast<size_t>(plan.num_spans);
  const size_t candidates = plan.num_spans == 1 ? 0 : spans * static_cast<size_t>(plan.capacity);
  SparqScratch layout{};
  size_t at = 0;
  const auto take = [&](size_t bytes) {
    const size_t from = at;
    at += (bytes + 255) / 256 * 256;
    return from;
  };
  layout.finished = take(4 * static_cast<size_t>(problem.batch) *
                         static_cast<size_t>(problem.num_qo_heads));  // first and of one size, as dense decode has it
  layout.key = take(4 * candidates);
  layout.token = take(4 * candidates);
  layout.value = take(4 * candidates * group);
  layout.local = take(4 * lists * static_cast<size_t>(plan.local) * group);
  layout.softmax = take(8 * spans);
  layout.total = at;
  return layout;
}

}  // namespace headscope::kernels::decode
