// SPDX-License-Identifier: Apache-2.0
// The GPU selectors against the CPU's, on fresh random data: the kept set of every row of every list. What the GPU must
// not read is NaN, what it must not trust (workspace and index memory) is garbage. Skipped without a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cuda_select_run.h"
#include "cuda_select_ties.h"
#include "kernels/method.h"
#include "random_problem.h"
#include "run_seed.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using testing::ChoiceOfHead;
using testing::DeviceTensor;
using testing::GpuSelection;
using testing::HeadChoice;
using testing::KeyBounds;
using testing::OnDevice;
using testing::ProblemShape;
using testing::RandomProblem;
using testing::SelectorOf;
using testing::TakenByCuda;
using testing::Values;
using testing::WithCudaSelector;

bool SameEntries(const SparseIndex& a, const SparseIndex& b, size_t list) {
  const auto runs = [&](const SparseIndex& index) { return index.runs.begin() + index.run_begin[list]; };
  const auto columns = [&](const SparseIndex& index) { return index.columns.begin() + index.column_begin[list]; };
  return a.run_count[list] == b.run_count[list] && a.column_count[list] == b.column_count[list] &&
         std::equal(runs(a), runs(a) + a.run_count[list], runs(b)) &&
         std::equal(columns(a), columns(a) + a.column_count[list], columns(b));
}

// The same keys for every row of the list, however its runs are cut.
bool SameKeptSet(const SparseIndex& a, const SparseIndex& b, size_t list) {
  if (SameEntries(a, b, list)) return true;
  const SparseIndexView left = a.View();
  const SparseIndexView right = b.View();
  const auto tiles = static_cast<size_t>(left.NumRowTiles());
  const auto head_of_batch = static_cast<int32_t>(list / tiles);
  const int32_t sequence = head_of_batch / left.num_qo_heads;
  const int32_t head = head_of_batch % left.num_qo_heads;
  const auto first_row = static_cast<int32_t>(list % tiles) * left.tile_rows;
  std::vector<ColumnRange> kept_left;
  std::vector<ColumnRange> kept_right;
  for (int32_t row = first_row; row < std::min(first_row + left.tile_rows, left.seq_q); ++row) {
    kept_left.clear();
    kept_right.clear();
    AppendKeptRanges(left, sequence, head, row, &kept_left);
    AppendKeptRanges(right, sequence, head, row, &kept_right);
    if (kept_left != kept_right) return false;
  }
  return true;
}

// Whether every row of the list keeps what the choice allows: all that is settled, and of the ties nothing else.
::testing::AssertionResult IsAllowed(const HeadChoice& choice, const SparseIndex& index, size_t list) {
  const SparseIndexView view = index.View();
  const auto tiles = static_cast<size_t>(view.NumRowTiles());
  const auto head_of_batch = static_cast<int32_t>(list / tiles);
  const auto first_row = static_cast<int32_t>(list % tiles) * view.tile_rows;
  std::vector<ColumnRange> kept;
  for (int32_t half_row = first_row; half_row < std::min(first_row + view.tile_rows, view.seq_q); half_row += 64) {
    const KeyBounds bounds = choice.BoundsOfRows(half_row);
    for (int32_t row = half_row; row < std::min(half_row + 64, view.seq_q); ++row) {
      kept.clear();
      AppendKeptRanges(view, head_of_batch / view.num_qo_heads, head_of_batch % view.num_qo_heads, row, &kept);
      if (bounds.Allow(view.first_position + row, kept)) continue;
      return ::testing::AssertionFailure()
             << "row " << row << " of head " << head_of_batch << " keeps other keys than float64 scores allow";
    }
  }
  return ::testing::AssertionSuccess();
}

struct Case {
  std::string method;
  std::string parameters;
  ProblemShape shape;
  float soft_cap = 0;
};

std::string NameOfCase(const Case& c) {
  std::string name = c.method + "_" + c.parameters + "_" + std::to_string(c.shape.seq_q) + "x" +
                     std::to_string(c.shape.seq_k) + "at" + std::to_string(c.shape.first_position) + "_b" +
                     std::to_string(c.shape.batch) + "_h" + std::to_string(c.shape.num_qo_heads) + "_" +
                     std::to_string(c.shape.num_kv_heads) + "_d" + std::to_string(c.shape.head_dim) +
                     (c.shape.dtype == DType::kBFloat16 ? "_bf16" : "_fp16") + (c.soft_cap > 0 ? "_cap" : "");
  for (char& letter : name) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  }
  return name;
}
void PrintTo(const Case& c, std::ostream* out) {
  *out << NameOfCase(c);
}

class CudaSelect : public ::testing::TestWithParam<Case> {};

TEST_P(CudaSelect, KeepsWhatTheCpuKeeps) {
  SKIP_WITHOUT_GPU();
  const Case& c = GetParam();
  std::mt19937 random(testing::FreshSeed());
  RandomProblem problem(c.shape, &random);
  problem.soft_cap = c.soft_cap;
  // Keys that no query sees are nobody's.
  for (int32_t sequence = 0; sequence < c.shape.batch; ++sequence) {
    for (int32_t head = 0; head < c.shape.num_kv_heads; ++head) {
      for (int32_t key = c.shape.first_position + c.shape.seq_q; key < c.shape.seq_k; ++key) {
        for (int32_t d = 0; d < c.shape.head_dim; ++d) {
          problem.k.Set(sequence, head, key, d, std::numeric_limits<float>::infinity());
        }
      }
    }
  }
  const ParameterValues values = Values(c.method, c.parameters);
  SparseIndex expected;
  const Status status = FindPrefillMethod(c.method)->Select(problem.View(), values, {}, &expected);
  ASSERT_TRUE(status.ok()) << status.message();

  const DeviceTensor q(problem.q.View(), c.shape.batch);
  const DeviceTensor k(problem.k.View(), c.shape.batch);
  const AttentionProblem device = OnDevice(problem.View(), q, k);
  GpuSelection selection(c.method, device, values);
  const SparseIndex& got = selection.host();
  ASSERT_EQ(got.run_count.size(), expected.run_count.size());
  EXPECT_EQ(got.rule, expected.rule);
  const Status valid = Validate(got.View());
  EXPECT_TRUE(valid.ok()) << valid.message();

  const int32_t num_tiles = expected.View().NumRowTiles();
  size_t ties = 0;
  int32_t chosen_head = -1;  // whose choice `choice` is
  std::unique_ptr<HeadChoice> choice;
  for (size_t list = 0; list < got.run_count.size(); ++list) {
    const bool same = SameKeptSet(got, expected, list);
    const auto head = static_cast<int32_t>(list / static_cast<size_t>(num_tiles));
    // Of short problems one head is compared with the float64 scores in any case.
    if (same && (head > 0 || c.shape.first_position + c.shape.seq_q > 1500)) continue;
    if (head != chosen_head) {
      choice = ChoiceOfHead(c.method, problem, values, head / c.shape.num_qo_heads, head % c.shape.num_qo_heads);
      chosen_head = head;
    }
    ASSERT_TRUE(same || choice != nullptr) << "list " << list << " differs, and there is nothing to choose";
    if (choice == nullptr) continue;
    ASSERT_TRUE(IsAllowed(*choice, got, list)) << "the GPU's list " << list;
    ASSERT_TRUE(IsAllowed(*choice, expected, list)) << "the CPU's list " << list;
    ties += same ? 0 : 1;
  }
  RecordProperty("ties", std::to_string(ties));

  // The same again in the same memory, now with other garbage in it: the same bits.
  const SparseIndex first = got;
  selection.Forget();
  selection.Run(c.method, device, values, nullptr);
  selection.Download();
  EXPECT_EQ(selection.host().runs, first.runs);
  EXPECT_EQ(selection.host().columns, first.columns);
  EXPECT_EQ(selection.host().run_count, first.run_count);
  EXPECT_EQ(selection.host().column_count, first.column_count);
}

ProblemShape Whole(int32_t length, int32_t heads = 4, int32_t kv_heads = 2, int32_t head_dim = 128, int32_t batch = 1,
                   DType dtype = DType::kBFloat16) {
  return {batch, heads, kv_heads, head_dim, length, length, 0, dtype};
}
ProblemShape Last(int32_t seq_q, int32_t first_position, int32_t seq_k, int32_t heads = 4, int32_t kv_heads = 2,
                  int32_t head_dim = 64, int32_t batch = 2, DType dtype = DType::kFloat16) {
  return {batch, heads, kv_heads, head_dim, seq_q, seq_k, first_position, dtype};
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const ProblemShape shapes[] = {
      Whole(1, 2, 1, 64),
      Whole(63, 2, 2, 96, 2),
      Whole(64, 7, 1, 128),
      Whole(65, 4, 4, 256),
      Whole(127, 4, 1, 64, 1, DType::kFloat16),
      Whole(129, 8, 1, 128, 2),
      Whole(1000, 16, 1, 96, 1, DType::kFloat16),
      Whole(1100, 4, 2, 256, 1, DType::kFloat16),
      Whole(4096, 4, 2, 128),
      Last(1, 300, 301),
      Last(100, 0, 400),
      Last(200, 77, 300),
      Last(200, 127, 327),
      Last(500, 1024, 1524),
      Last(333, 1000, 1400, 6, 3, 128, 2, DType::kBFloat16),
  };
  // Of every registered selector the defaults, and what is settled by hand.
  std::vector<std::pair<std::string, std::string>> settings = {
      {"a-shape", "n_sink=10,n_local=100"},
      {"a-shape", "n_sink=0,n_local=1"},
      {"vertical-slash", "n_vertical=40,n_slash=30,forced_columns=3,forced_slashes=5"},
      {"vertical-slash", "n_vertical=200,n_slash=12,last_q=17"},
      {"vertical-slash", "n_vertical=0,n_slash=50,last_q=200"},
      {"vertical-slash", "n_vertical=60,n_slash=0,last_q=100"},
      {"block-sparse", "n_blocks=1"},
      {"block-sparse", "n_blocks=5"},
      {"s2-attention", "local_blocks=2,vertical_stride=4,head_step=3,offset=1,subtract_offset=1,max_distance=9"},
      {"s2-attention", "local_blocks=1,vertical_stride=1,per_kv_head=1"},
      {"s2-attention", "vertical_stride=3,far_factor=1,far_distance=2"},
      {"sample-attention", "alpha_c=0.5,alpha_s=0.4"},
      {"sample-attention", "alpha_c=0.3,alpha_s=0,chunk_n=5,own_rows_only=1"},
      {"sample-attention", "alpha_c=0,alpha_s=0.2,chunk_n=3,keep_diagonal=1"},
      {"sample-attention", "alpha_c=1,alpha_s=1"},
      {"sample-attention", "by_length=glm4-fast"},
      {"x-attention", "tau=0.5,force_ends=1"},
      {"x-attention", "tau=0.6,stride=4"},
      {"x-attention", "tau=0.7,stride=16"},
      {"x-attention", "tau=0.5,stride=32,force_ends=1"},
      {"x-attention", "tau=0.4,stride=64"},
      {"x-attention", "tau=1"},
      {"x-attention", "tau=0"},
      {"sparge-attn", "rule=top_k,tau=0.2,centre=1"},
      {"sparge-attn", "rule=top_k,tau=0"},
      {"sparge-attn", "rule=top_k,tau=0.3,theta=0.0078,similarity=cosine,centre=1"},
      {"sparge-attn", "tau=0.6,theta=0.0135,similarity=cosine,centre=1"},
      {"sparge-attn", "tau=0.9,theta=0.01"},
      {"sparge-attn", "tau=1"},
      {"flex-prefill", "gamma=0.5,tau=0,min_budget=0,form=code"},
      {"flex-prefill", "gamma=0.8,tau=0,min_budget=0,form=code"},
      {"flex-prefill", "gamma=0.5,tau=1,min_budget=0,form=code"},
      {"flex-prefill", "gamma=0.2,tau=1,min_budget=128,form=code"},
      {"flex-prefill", "gamma=0.3,min_budget=0,form=code"},
      {"flex-prefill", "gamma=0,tau=1,min_budget=256,form=code"},
      {"flex-prefill", "gamma=1,tau=1,min_budget=0,form=code"},
  };
  for (const std::string& method : WithCudaSelector()) settings.emplace_back(method, TakenByCuda(method));
  for (const auto& [method, parameters] : settings) {
    for (const ProblemShape& shape : shapes) cases.push_back({method, parameters, shape});
  }
  for (const char* method : {"vertical-slash", "sample-attention"}) {
    cases.push_back({method, "", Whole(700), 5.0f});
    cases.push_back({method, "", Whole(46341, 2, 1, 64)});
    cases.push_back({method, "", Last(1000, 130072, 131072, 2, 1, 64, 1)});
  }
  for (const auto& [method, large] : {std::pair{"x-attention", "stride=64"}, std::pair{"sparge-attn", "tau=0.5"},
                                      std::pair{"flex-prefill", "gamma=0.5,tau=1,form=code"}}) {
    const std::string usual = TakenByCuda(method);
    cases.push_back({method, usual, Whole(700), 5.0f});
    cases.push_back({method, usual, Whole(46341, 2, 1, 64)});
    cases.push_back({method, usual, Last(1000, 130072, 131072, 2, 1, 64, 1)});
    cases.push_back({method, large, Whole(131072, 2, 1, 64)});
  }
  // So many keys and queries in whole groups that pairs of tiles are made of them: two tiles and three, several
  // sequences, a soft cap. Then queries of one tile, which single blocks take.
  for (const auto& [stride, rows] :
       {std::pair{"tau=0.5,stride=4", 1536}, {"tau=0.6,stride=8", 1536}, {"tau=0.7,stride=16", 2304}}) {
    cases.push_back({"x-attention", stride, Last(rows, 49152, 49152 + rows, 2, 1, 128, 2)});
  }
  cases.push_back({"x-attention", "tau=0.7,stride=16", Last(2304, 65024, 67328, 2, 1, 256, 1, DType::kBFloat16)});
  cases.push_back({"x-attention", "tau=0.6,stride=8", Last(1536, 49152, 50688, 2, 1, 128), 5.0f});
  for (const char* stride : {"tau=0.5,stride=4", "tau=0.6,stride=8", "tau=0.7,stride=16", "tau=0.5,stride=64"}) {
    cases.push_back({"x-attention", stride, Last(640, 65024, 65700)});
    cases.push_back({"x-attention", stride, Last(448, 65536, 65984, 2, 1, 256, 1, DType::kBFloat16)});
  }
  cases.push_back({"flex-prefill", "gamma=0.9,tau=0,form=code", Whole(20000, 2, 2, 64)});
  cases.push_back({"vertical-slash", "n_vertical=1000,n_slash=200", Whole(20000, 2, 2, 64)});
  cases.push_back({"sample-attention", "chunk_n=64", Whole(20000, 2, 2, 64)});
  cases.push_back({"block-sparse", "", Whole(46341, 1, 1, 64)});
  cases.push_back({"block-sparse", "n_blocks=64", Last(1000, 230000, 231000, 1, 1, 64, 1)});
  for (const std::string& method : WithCudaSelector()) {
    if (!SelectorOf(method).spec->IsStatic()) continue;
    cases.push_back({method, "", Whole(46341, 2, 1, 64)});
    cases.push_back({method, "", Whole(131072, 2, 1, 64)});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, CudaSelect, ::testing::ValuesIn(Cases()),
                         [](const auto& test) { return NameOfCase(test.param); });

}  // namespace
}  // namespace headscope::kernels
