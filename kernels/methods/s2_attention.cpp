// SPDX-License-Identifier: Apache-2.0
// S2-Attention: every head keeps its local blocks and its own shard of the distant ones; together the heads see the
// whole context.
//
// Source: Efficient LLM Training and Serving with Heterogeneous Context Sharding among Attention Heads, section 4. In
// blocks of 64 tokens, query block i of head h keeps key block j <= i if i - j < local_blocks, or if j plus (or minus)
// the head's offset is a multiple of vertical_stride and the distance is below max_distance. The offset is head *
// head_step + offset, head being its number in the layer. With several strides (equation 2 there; here two) blocks that
// are far_distance blocks away and more go by a stride far_factor times as long, by the same offset: what a far query
// keeps, nearer ones kept. The local stride of section 4.4, 1 there and by default, has its place in the same way: of
// the local blocks one in local_stride is kept, and what a distant query would keep, so that nearer ones have it too.
//
// Distant blocks are chosen by absolute key position, so a key that a later query needs was used by every earlier query
// too: a KV cache can drop the others. The model's first dense_layers layers attend to everything (the same section:
// two). The sign of the offset is lost from the paper's text; the released code's plus is the default, and with
// num_qo_heads >= vertical_stride both signs cover the same union. Blocks are those of token positions; a row block
// that straddles two of them keeps what either keeps.
#include <algorithm>
#include <map>
#include <numeric>

#include "common_parameters.h"
#include "head_groups.h"
#include "kernels/stop_status.h"
#include "registry.h"
#include "selector.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kS2Block = 64;

ParameterSpec InBlocks(ParameterSpec spec) {
  spec.maximum = 1 << 14;
  spec.unit = Unit::kBlocks;
  spec.tokens_per_unit = kS2Block;
  return spec;
}

MethodSpec S2AttentionSpec() {
  return {
      .name = "s2-attention",
      .title = "S2-Attention",
      .family = "static pattern",
      .paper =
          "Efficient LLM Training and Serving with Heterogeneous Context Sharding among Attention Heads, section 4",
      .summary = "Keeps local blocks and, per head, one in every vertical_stride distant blocks.",
      .always_keeps =
          "local_blocks (of which local_stride may leave out some), and a shard by the head's number; in "
          "the first dense_layers everything",
      .selection_cost = "nothing",
      .phase = Phase::kPrefill,
      .chosen_per = ChosenPer::kPlace,
      .parameters =
          {
              InBlocks(
                  {.name = "local_blocks",
                   .default_value = 1,
                   .minimum = 1,
                   .logarithmic = true,
                   .help = "newest blocks of 64 tokens that every row keeps, of which local_stride leaves some out",
                   .cost = "64 more pairs per row and block",
                   .role = ParameterRole::kBudget}),
              InBlocks({.name = "vertical_stride",
                        .default_value = 15,
                        .minimum = 1,
                        .logarithmic = true,
                        .help = "one in this many distant blocks is kept; 1 is dense",
                        .cost = "less work; beyond the number of heads some blocks belong to no head"}),
              InBlocks({.name = "head_step",
                        .default_value = 1,
                        .help = "offset between neighbouring heads; 0 gives every head the same pattern",
                        .cost = "no work; with a step that shares a factor with the stride, heads repeat each other"}),
              InBlocks({.name = "offset", .help = "offset of head 0", .cost = "no work"}),
              {.name = "subtract_offset",
               .type = ParameterType::kFlag,
               .help = "subtract the offset from the key block instead of adding it",
               .cost = "no work"},
              {.name = "per_kv_head",
               .type = ParameterType::kFlag,
               .help = "count KV heads instead of query heads: a KV group shares one pattern",
               .cost = "fewer patterns, so together the heads see less"},
              internal::DenseLayersParameter(),
              InBlocks({.name = "max_distance",
                        .help = "distant blocks at least this far away are dropped; 0 drops none",
                        .cost = "more work per row"}),
              {.name = "far_factor",
               .default_value = 1,
               .minimum = 1,
               .maximum = 1 << 10,
               .logarithmic = true,
               .help = "from far_distance on, one in far_factor * vertical_stride blocks is kept; 1: at any distance "
                       "one in vertical_stride",
               .cost = "less work; with a stride beyond the number of heads some far blocks belong to no head"},
              InBlocks({.name = "far_distance",
                        .default_value = 64,
                        .minimum = 1,
                        .logarithmic = true,
                        .help = "distance in blocks from which on far_factor counts",
                        .cost = "more work per row"}),
              InBlocks({.name = "local_stride",
                        .default_value = 1,
                        .minimum = 1,
                        .logarithmic = true,
                        .help = "one in this many local blocks is kept, counted as the distant ones; 1: all",
                        .cost = "less work; rows may keep nothing"}),
          },
  };
}

struct Pattern {
  int64_t local_blocks;
  int64_t stride, far_stride;  // the first divides the second
  int64_t residue;             // key blocks that are congruent to this modulo a stride are the head's own
  int64_t far_distance;
  int64_t max_distance;
  int64_t local_stride;

  bool Keeps(int64_t query_block, int64_t key_block) const {
    const int64_t distance = query_block - key_block;
    if (distance < 0) return false;
    if (distance < local_blocks && (key_block - residue) % local_stride == 0) return true;
    const int64_t modulus = distance < far_distance ? stride : far_stride;
    return (key_block - residue) % modulus == 0 && (max_distance == 0 || distance < max_distance);
  }
};

void AddQueryBlock(const Pattern& pattern, int64_t query_block, uint32_t half_flag, SparseIndexBuilder* builder) {
  const int64_t local_begin = std::max<int64_t>(0, query_block - pattern.local_blocks + 1);
  for (int64_t block = pattern.residue % pattern.stride; block < local_begin; block += pattern.stride) {
    if (pattern.Keeps(query_block, block)) builder->AddRange(block * kS2Block, (block + 1) * kS2Block, half_flag);
  }
  if (pattern.local_stride == 1) {
    builder->AddRange(local_begin * kS2Block, (query_block + 1) * kS2Block, half_flag);
    return;
  }
  for (int64_t block = local_begin; block <= query_block; ++block) {
    if (pattern.Keeps(query_block, block)) builder->AddRange(block * kS2Block, (block + 1) * kS2Block, half_flag);
  }
}

void AddLists(const AttentionProblem& problem, const Pattern& pattern, SparseIndexBuilder* builder) {
  for (int32_t tile_row = 0; tile_row < problem.seq_q; tile_row += 2 * kS2Block) {
    for (int32_t half = 0; half < 2; ++half) {
      const int32_t begin = tile_row + half * kS2Block;
      const int32_t end = std::min(begin + kS2Block, problem.seq_q);
      if (begin >= end) continue;
      const int64_t first_block = (int64_t{problem.first_position} + begin) / kS2Block;
      const int64_t last_block = (int64_t{problem.first_position} + end - 1) / kS2Block;
      const uint32_t half_flag = half == 0 ? kRunUpperHalf : kRunLowerHalf;
      for (int64_t block = first_block; block <= last_block; ++block) AddQueryBlock(pattern, block, half_flag, builder);
    }
    builder->FinishList();
  }
}

class S2AttentionMethod final : public internal::PrefillSelector {
 public:
  S2AttentionMethod() : PrefillSelector(S2AttentionSpec()) {}
  std::string_view DenseBy(const ParameterValues& values, int32_t layer) const override {
    return internal::DenseByFirstLayers(values, layer);
  }

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    const int64_t stride = values.Integer("vertical_stride");
    const int64_t far_stride = stride * values.Integer("far_factor"), local_stride = values.Integer("local_stride");
    const int64_t period = std::lcm(far_stride, local_stride);
    if (IsDenseLayer(values, problem.layer)) {
      *index = internal::IndexOfRule(problem, {});
      return {};
    }
    // Heads with the same residue share their lists.
    std::map<int64_t, int32_t> pattern_of_residue;
    std::vector<int64_t> residues;
    std::vector<int32_t> pattern_of_head;
    for (int32_t head = 0; head < problem.num_qo_heads; ++head) {
      const int64_t number = values.Flag("per_kv_head") ? int64_t{problem.first_kv_head} + head / problem.GroupSize()
                                                        : int64_t{problem.first_qo_head} + head;
      const int64_t shift = (number * values.Integer("head_step") + values.Integer("offset")) % period;
      const int64_t residue = values.Flag("subtract_offset") ? shift : (period - shift) % period;
      const auto [pattern, is_new] = pattern_of_residue.try_emplace(residue, static_cast<int32_t>(residues.size()));
      if (is_new) residues.push_back(residue);
      pattern_of_head.push_back(pattern->second);
    }

    SparseIndexBuilder::Shape shape = internal::IndexShape(problem);
    shape.batch = 1;
    shape.num_qo_heads = static_cast<int32_t>(residues.size());
    SparseIndexBuilder builder(shape);
    for (const int64_t residue : residues) {
      if (options.stop.stop_requested()) return Stopped();
      AddLists(problem,
               {.local_blocks = values.Integer("local_blocks"),
                .stride = stride,
                .far_stride = far_stride,
                .residue = residue,
                .far_distance = values.Integer("far_distance"),
                .max_distance = values.Integer("max_distance"),
                .local_stride = local_stride},
               &builder);
    }
    *index = internal::SharePatterns(builder.Build(), problem, pattern_of_head);
    return {};
  }
};

}  // namespace

const PrefillMethod& S2Attention() {
  static const S2AttentionMethod method;
  return method;
}

}  // namespace headscope::kernels
