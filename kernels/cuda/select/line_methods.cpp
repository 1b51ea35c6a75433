// SPDX-License-Identifier: Apache-2.0
// Vertical-slash, SampleAttention and FlexPrefill: probe, pick, write.
#include <algorithm>
#include <limits>

#include "internal/method_choices.h"
#include "select/flex_prefill.h"
#include "select/probe.h"
#include "select/selection_call.h"
#include "select/top_blocks.h"
#include "select/top_lines.h"
#include "select/top_stripes.h"

namespace headscope::kernels::selection {
namespace {

constexpr int32_t kMostKeysPerWarp = 1024;
// Thread blocks beyond which strips get longer: one round of a large GPU, four to a multiprocessor. A second round pays
// once more for queries, first keys and the merge of rows. Fixed, so that the sums do not depend on the GPU.
constexpr int64_t kManyBlocks = 512;

int32_t CeilDivide(int64_t a, int64_t b) {
  return static_cast<int32_t>((a + b - 1) / b);
}

// Fills in everything of the probe: shapes, strips and memory.
ProbeParams TakeProbe(Call* call, int32_t num_chunks, int32_t rows_per_chunk, bool stripes) {
  const AttentionProblem& problem = call->problem;
  ProbeParams params;
  SetTensors(*call, &params);
  params.group_size = problem.GroupSize();
  params.num_chunks = num_chunks;
  const int32_t longest_chunk = CeilDivide(problem.seq_q, num_chunks);
  params.rows_per_chunk = std::min(rows_per_chunk, longest_chunk);
  params.units_per_chunk = CeilDivide(params.rows_per_chunk, kUnitRows);
  params.stripes = stripes;

  const int32_t num_keys = call->NumVisibleKeys();
  const int64_t num_units = call->NumHeads() * params.UnitsPerHead();
  params.keys_per_warp = kStripe;
  auto num_strips = [&] { return CeilDivide(num_keys, int64_t{params.keys_per_warp} * kProbeWarps); };
  while (params.keys_per_warp < kMostKeysPerWarp && num_units * num_strips() > kManyBlocks) {
    params.keys_per_warp *= 2;
  }
  params.num_strips = num_strips();

  SetScale(problem, problem.EffectiveScale(), &params);

  params.column_pitch = stripes ? CeilDivide(num_keys, kStripe) : num_keys;
  params.slash_pitch = stripes ? params.keys_per_warp / kStripe + 2 : params.keys_per_warp + kUnitRows;
  params.row_partials = call->workspace.Take<float2>(num_units * params.num_strips * kUnitRows);
  params.columns = call->workspace.Take<float>(num_units * params.column_pitch);
  params.slashes = call->workspace.Take<float>(num_units * params.NumWarpStrips() * params.slash_pitch);
  return params;
}

Status LaunchProbe(const Call& call, const ProbeParams& params) {
  const auto launch = call.problem.dtype == DType::kBFloat16 ? LaunchProbeBf16 : LaunchProbeFp16;
  return LaunchStatus(launch(params, call.problem.batch, call.stream), "ProbeKernel", call);
}

Status RefuseSize(const char* what, int64_t size, int64_t most) {
  return {StatusCode::kUnsupported, std::string(what) + " is " + std::to_string(size) + ": the GPU selector takes " +
                                        std::to_string(most) + "; split the batch or select on the CPU."};
}

// Grid sizes of the launches behind the probe and the probe's own.
Status CheckGrids(const Call& call, const ProbeParams& params, int64_t num_picks) {
  const int64_t blocks = call.NumHeads() * params.UnitsPerHead() * params.num_strips;
  if (blocks > std::numeric_limits<int32_t>::max()) {
    return RefuseSize("the number of probed rows and keys in thread blocks", blocks,
                      std::numeric_limits<int32_t>::max());
  }
  constexpr int64_t kMostPicks = 65534;
  if (num_picks > kMostPicks) {
    return RefuseSize("two picks per head of the batch (batch * num_qo_heads * 2)", num_picks, kMostPicks);
  }
  return {};
}

// The most runs that a vertical-slash list can have, whatever is chosen. Runs begin where the state of the halves
// changes. A slash that stands alone changes it at 3 columns (the upper half's range ends where the lower's begins), a
// group of slashes at 4; ranges of one half are 65 columns apart or more. A column that splits a run adds two, the
// diagonal cuts a run of each half.
int64_t MostRuns(int64_t num_slashes, int64_t num_columns, int64_t num_keys) {
  const int64_t changes = std::min(3 * num_slashes, 4 * (num_keys / 65 + 2));
  return std::min(changes + 2 * num_columns + 2, num_keys + 2);
}

}  // namespace

Status SelectVerticalSlash(Call* call) {
  const int32_t num_keys = call->NumVisibleKeys();
  TopLinesParams top;
  top.count[0] = std::min(call->values.Integer("n_vertical"), num_keys);
  top.count[1] = std::min(call->values.Integer("n_slash"), num_keys);
  const ListArrays arrays =
      TakeLists(call, call->view.NumLists(), MostRuns(top.count[1], top.count[0], num_keys), top.count[0]);
  top.probe = TakeProbe(call, /*num_chunks=*/1, call->values.Integer("last_q"), /*stripes=*/false);
  top.num_lists = static_cast<int32_t>(call->NumHeads());
  top.num_lines = num_keys;
  top.forced[0] = call->values.Integer("forced_columns");
  top.forced[1] = call->values.Integer("forced_slashes");
  top.key_pitch = (num_keys + 3) / 4 * 4;
  const int32_t words = LineBitmapWords(num_keys);
  top.keys = call->workspace.Take<uint32_t>(call->NumHeads() * 2 * top.key_pitch);
  top.bitmaps = call->workspace.Take<uint64_t>(call->NumHeads() * 2 * words);
  top.top_position = call->problem.first_position + (call->view.NumRowTiles() - 1) * kTileRows + kHalfRows;
  top.windows = call->workspace.Take<uint64_t>(call->NumHeads() * WindowWords(top.top_position));
  const int32_t column_words = CeilDivide(num_keys, 64);
  const int32_t change_words = ChangeWords(top.top_position);
  const int32_t most_changes = MostChanges(top.count[1], top.top_position);
  top.columns = call->workspace.Take<int32_t>(call->NumHeads() * top.count[0]);
  top.columns_before = call->workspace.Take<int32_t>(call->NumHeads() * (column_words + 1));
  top.changes = call->workspace.Take<uint32_t>(call->NumHeads() * most_changes);
  top.changes_before = call->workspace.Take<int32_t>(call->NumHeads() * (change_words + 1));

  Status status = CheckGrids(*call, top.probe, call->NumHeads() * 2);
  if (!status.ok() || !call->launches) return status;
  status = LaunchProbe(*call, top.probe);
  if (status.ok()) status = LaunchStatus(LaunchTopLines(top, call->stream), "TopLinesKernel", *call);
  if (!status.ok()) return status;
  LineLists lists;
  lists.bitmaps = top.bitmaps;
  lists.words = words;
  lists.windows = top.windows;
  lists.top_position = top.top_position;
  lists.columns = top.columns;
  lists.columns_before = top.columns_before;
  lists.column_capacity = top.count[0];
  lists.column_words = column_words;
  lists.changes = top.changes;
  lists.changes_before = top.changes_before;
  lists.change_capacity = most_changes;
  lists.change_words = change_words;
  return LaunchStatus(LaunchLineLists(lists, ShapeOfLists(*call), arrays, call->stream), "WriteLineListsKernel", *call);
}

Status SelectSampleAttention(Call* call) {
  const ParameterValues& values = call->values;
  const internal::SampleSettings settings = internal::SampleSettingsOf(values, call->NumVisibleKeys());
  const int32_t num_chunks = std::min(settings.chunk_n, call->problem.seq_q);
  const int32_t num_stripes = CeilDivide(call->NumVisibleKeys(), kStripe);
  // Every other block at most starts a run, and the diagonal cuts one.
  const ListArrays arrays = TakeLists(call, call->view.NumLists(), num_stripes / 2 + 3, 0);
  TopStripesParams top;
  top.probe = TakeProbe(call, num_chunks, kStripe, /*stripes=*/true);
  top.num_sets = static_cast<int32_t>(call->NumHeads()) * num_chunks;
  top.num_stripes = num_stripes;
  top.share[0] = settings.alpha_c;
  top.share[1] = settings.alpha_s;
  StripeLists lists;
  lists.words = LineBitmapWords(num_stripes);
  lists.num_chunks = num_chunks;
  lists.own_rows_only = values.Flag("own_rows_only");
  lists.keep_diagonal = values.Flag("keep_diagonal");
  const int64_t num_picks = int64_t{top.num_sets} * 2;
  top.masses = call->workspace.Take<float>(num_picks * num_stripes);
  top.bitmaps = call->workspace.Take<uint64_t>(num_picks * lists.words);
  lists.bitmaps = top.bitmaps;

  Status status = CheckGrids(*call, top.probe, 0);
  if (!status.ok() || !call->launches) return status;
  status = LaunchProbe(*call, top.probe);
  if (status.ok()) status = LaunchStatus(LaunchTopStripes(top, call->stream), "TopStripesKernel", *call);
  if (!status.ok()) return status;
  return LaunchStatus(LaunchStripeLists(lists, ShapeOfLists(*call), arrays, call->stream), "WriteListsKernel", *call);
}

Status SelectFlexPrefill(Call* call) {
  const AttentionProblem& problem = call->problem;
  const ParameterValues& values = call->values;
  if (values.Choice<internal::FlexForm>("form") == internal::FlexForm::kPaper) {
    return {StatusCode::kUnsupported,
            "the form is paper: FlexPrefill's GPU selector keeps stripes of 128 lines (form=code); select on the CPU."};
  }
  const int32_t num_keys = call->NumVisibleKeys();
  const int32_t num_stripes = CeilDivide(num_keys, kStripe);
  // Every other block at most starts a run, and the diagonal cuts one.
  const ListArrays arrays = TakeLists(call, call->view.NumLists(), num_stripes / 2 + 3, 0);
  FlexPrefillParams flex;
  flex.probe = TakeProbe(call, /*num_chunks=*/1, kStripe, /*stripes=*/false);
  BlockScoresParams& blocks = flex.blocks;
  SetTensors(*call, &blocks);
  blocks.batch = problem.batch;
  blocks.is_bf16 = problem.dtype == DType::kBFloat16;
  blocks.num_visible_keys = num_keys;
  blocks.key_block = kStripe;
  blocks.score_scale = flex.probe.score_scale;
  blocks.cap = flex.probe.cap;
  const int64_t num_lists = call->NumHeads();
  const int64_t num_rows = num_lists * blocks.NumQueryBlocks();
  blocks.q_means = call->workspace.Take<float>(num_rows * blocks.head_dim);
  blocks.k_means = call->workspace.Take<float>(blocks.NumKvLists() * num_stripes * blocks.head_dim);
  blocks.mean_keys = call->workspace.Take<float>(blocks.NumKvLists() * blocks.head_dim);
  blocks.scores = call->workspace.Take<float>(num_rows * num_stripes);
  flex.num_lists = static_cast<int32_t>(num_lists);
  flex.num_lines = num_keys;
  flex.gamma = values.Real("gamma");
  flex.tau = values.Real("tau");
  flex.least_stripes = std::max(CeilDivide(values.Integer("min_budget"), kStripe), 1);
  flex.words = BlockBitmapWords(num_stripes);
  flex.lines = call->workspace.Take<float>(num_lists * 2 * num_keys);
  flex.stripes = call->workspace.Take<float>(num_lists * 2 * num_stripes);
  flex.by_means = call->workspace.Take<uint8_t>(num_lists);
  flex.map = call->workspace.Take<float>(num_lists * flex.MapSize());
  flex.cuts = call->workspace.Take<MapCut>(num_lists);
  flex.ties_before = call->workspace.Take<int32_t>(num_rows);
  flex.stripe_bits = call->workspace.Take<uint64_t>(num_lists * 2 * flex.words);
  flex.bitmaps = call->workspace.Take<uint64_t>(num_rows * flex.words);

  // Thread blocks or warps of the launches that have most.
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 32;
  const int64_t most = std::max({num_lists * 2 * num_stripes, blocks.NumBlocks(), blocks.NumScoreTiles()});
  Status status = CheckGrids(*call, flex.probe, 0);
  if (status.ok() && most > kMost) status = RefuseSize("the number of stripes or blocks of all heads", most, kMost);
  if (!status.ok() || !call->launches) return status;
  status = LaunchProbe(*call, flex.probe);
  if (status.ok()) status = LaunchStatus(LaunchLineMass(flex, call->stream), "LineMassKernel", *call);
  // Queries of heads that choose by lines are neither pooled nor scored.
  blocks.wanted = flex.by_means;
  if (status.ok()) status = LaunchStatus(LaunchKeyMeans(blocks, call->stream), "BlockMeansKernel", *call);
  if (status.ok()) status = LaunchStatus(LaunchFlexDecision(flex, call->stream), "DecideKernel", *call);
  if (status.ok()) status = LaunchStatus(LaunchWantedScores(blocks, call->stream), "BlockScoresKernel", *call);
  if (status.ok()) status = LaunchStatus(LaunchFlexPrefill(flex, call->stream), "FlexCutKernel", *call);
  if (!status.ok()) return status;
  const TileBlockLists lists{flex.bitmaps, 7, flex.words};
  return LaunchStatus(LaunchTileBlockLists(lists, ShapeOfLists(*call), arrays, call->stream), "WriteListsKernel",
                      *call);
}

}  // namespace headscope::kernels::selection
