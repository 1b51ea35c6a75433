// SPDX-License-Identifier: Apache-2.0
// Hash-Sparse: a query attends to the keys of its own hash bucket.
//
// Source: Faster Causal Attention Over Large Sequences Through Sparse Flash Attention, section 3.2, and its released
// code: of half as many random directions as there are buckets, the one along which or against which a vector points
// furthest is its bucket; a query attends causally to the keys of its bucket, and to nothing where there are none.
// SampleAttention compares with it. Directions are drawn by `seed`, one set for all heads.
//
// A list of headscope's index belongs to 64 rows, which keep what any of them chose.
#include <algorithm>
#include <cmath>
#include <vector>

#include "head_groups.h"
#include "internal/element.h"
#include "registry.h"
#include "row_sets.h"
#include "selector.h"
#include "sim_hash.h"

namespace headscope::kernels {
namespace {

MethodSpec MakeSpec() {
  return {
      .name = "hash-sparse",
      .title = "Hash-Sparse",
      .family = "hashing",
      .paper = "Faster Causal Attention Over Large Sequences Through Sparse Flash Attention, section 3.2",
      .summary = "Keeps the keys that fall into a query's hash bucket, of any of 64 rows.",
      .phase = Phase::kPrefill,
      .chosen_per = ChosenPer::kQueryHead,
      .parameters =
          {
              {.name = "num_buckets",
               .default_value = 16,
               .minimum = 2,
               .maximum = 4096,
               .step = 2,
               .logarithmic = true,
               .help = "buckets, rounded down to an even number (the paper: 16)",
               .cost = "fewer pairs"},
              {.name = "seed",
               .default_value = 0,
               .minimum = 0,
               .maximum = 1 << 30,
               .help = "of the directions; results name it",
               .cost = "nothing: another draw"},
          },
  };
}

// Of every row of a head.
std::vector<int32_t> Buckets(const StridedTensor<const void>& tensor, DType dtype, int64_t offset, int32_t num_rows,
                             int32_t head_dim, const std::vector<float>& directions) {
  const auto width = static_cast<size_t>(head_dim);
  const size_t count = directions.size() / width;
  std::vector<int32_t> buckets;
  std::vector<float> row(width);
  for (int32_t r = 0; r < num_rows; ++r) {
    internal::LoadRow(tensor.data, dtype, offset + r * tensor.row_stride, head_dim, row.data());
    double furthest = -1;
    size_t bucket = 0;
    for (const bool against : {false, true}) {
      for (size_t i = 0; i < count; ++i) {
        double along = 0, square = 0;
        for (size_t d = 0; d < width; ++d) {
          const auto direction = static_cast<double>(directions[i * width + d]);
          along += direction * static_cast<double>(row[d]);
          square += direction * direction;
        }
        along = (against ? -along : along) / std::sqrt(square);
        if (along > furthest) {
          furthest = along;
          bucket = (against ? count : 0) + i;
        }
      }
    }
    buckets.push_back(static_cast<int32_t>(bucket));
  }
  return buckets;
}

class HashSparseMethod final : public internal::PrefillSelector {
 public:
  HashSparseMethod() : PrefillSelector(MakeSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    const std::vector<float> directions = internal::RandomPlanes(values.Integer("num_buckets") / 2, problem.head_dim,
                                                                 static_cast<uint64_t>(values.Integer("seed")));
    return internal::SelectByHead(
        problem, options,
        [&](const internal::HeadGroup& group, SparseIndexBuilder* builder) {
          const std::vector<int32_t> of_keys = Buckets(
              problem.k, problem.dtype, group.sequence * problem.k.batch_stride + group.kv_head * problem.k.head_stride,
              internal::NumVisibleKeys(problem), problem.head_dim, directions);
          for (int32_t i = 0; i < group.num_heads && !options.stop.stop_requested(); ++i) {
            const std::vector<int32_t> of_queries =
                Buckets(problem.q, problem.dtype,
                        group.sequence * problem.q.batch_stride + (group.first_head + i) * problem.q.head_stride,
                        problem.seq_q, problem.head_dim, directions);
            const auto mark = [&](int32_t begin, int32_t end, std::vector<char>* kept) {
              std::vector<char> wanted(2 * (directions.size() / static_cast<size_t>(problem.head_dim)), 0);
              for (int32_t row = begin; row < end; ++row)
                wanted[static_cast<size_t>(of_queries[static_cast<size_t>(row)])] = 1;
              for (size_t key = 0; key < kept->size(); ++key) (*kept)[key] = wanted[static_cast<size_t>(of_keys[key])];
            };
            internal::AddRowSets(problem, options, mark, builder);
          }
        },
        index);
  }
};

}  // namespace

const PrefillMethod& HashSparse() {
  static const HashSparseMethod method;
  return method;
}

}  // namespace headscope::kernels
