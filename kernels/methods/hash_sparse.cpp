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

#include "common_parameters.h"
#include "dot.h"
#include "head_groups.h"
#include "internal/element.h"
#include "registry.h"
#include "row_sets.h"
#include "selector.h"
#include "sim_hash.h"

namespace headscope::kernels {
namespace {

MethodSpec HashSparseSpec() {
  return {
      .name = "hash-sparse",
      .title = "Hash-Sparse",
      .family = "hashing",
      .paper = "Faster Causal Attention Over Large Sequences Through Sparse Flash Attention, section 3.2",
      .summary = "Keeps, per block of 64 queries, the keys that share a hash bucket with any of them.",
      .always_keeps = "keys that share a bucket with the query, however many",
      .selection_cost = "a hash of every query and key, 2 S num_buckets d FLOPs, a head",
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
              internal::SeedParameter("the hash directions"),
          },
  };
}

// Directions and their opposites; a bucket's number counts the first and then the second.
class Directions {
 public:
  Directions(std::vector<float> rows, int32_t head_dim)
      : rows_(std::move(rows)), width_(static_cast<size_t>(head_dim)) {
    for (size_t at = 0; at < rows_.size(); at += width_)
      inverse_norms_.push_back(1 / std::sqrt(Exact(rows_.data() + at, rows_.data() + at)));
  }

  size_t NumBuckets() const { return 2 * inverse_norms_.size(); }

  // The one that the row points along most.
  size_t Bucket(const float* row) const {
    const size_t count = inverse_norms_.size();
    float furthest = -1, second = -1;
    size_t bucket = 0;
    for (size_t i = 0; i < count; ++i) {
      const float along = internal::Dot(row, rows_.data() + i * width_, width_) * static_cast<float>(inverse_norms_[i]);
      const float size = std::abs(along);
      second = std::max(second, std::min(size, furthest));
      if (size > furthest) {
        furthest = size;
        bucket = i + (along < 0 ? count : 0);
      }
    }
    // Far more than fp32 errs by: otherwise the larger one is not known yet.
    constexpr float kRounding = 1e-4f;
    return furthest - second > kRounding * std::sqrt(internal::Dot(row, row, width_)) ? bucket : ExactBucket(row);
  }

 private:
  double Exact(const float* a, const float* b) const {
    double sum = 0;
    for (size_t d = 0; d < width_; ++d) sum += static_cast<double>(a[d]) * static_cast<double>(b[d]);
    return sum;
  }

  size_t ExactBucket(const float* row) const {
    const size_t count = inverse_norms_.size();
    double furthest = -1;
    size_t bucket = 0;
    for (const bool against : {false, true}) {
      for (size_t i = 0; i < count; ++i) {
        const double along = Exact(row, rows_.data() + i * width_) * (against ? -1 : 1) * inverse_norms_[i];
        if (along > furthest) {
          furthest = along;
          bucket = (against ? count : 0) + i;
        }
      }
    }
    return bucket;
  }

  const std::vector<float> rows_;
  const size_t width_;
  std::vector<double> inverse_norms_;
};

// Of every row of a head.
std::vector<int32_t> Buckets(const StridedTensor<const void>& tensor, DType dtype, int64_t offset, int32_t num_rows,
                             int32_t head_dim, const Directions& directions) {
  std::vector<int32_t> buckets;
  buckets.reserve(static_cast<size_t>(num_rows));
  std::vector<float> row(static_cast<size_t>(head_dim));
  for (int32_t r = 0; r < num_rows; ++r) {
    internal::LoadRow(tensor.data, dtype, offset + r * tensor.row_stride, head_dim, row.data());
    buckets.push_back(static_cast<int32_t>(directions.Bucket(row.data())));
  }
  return buckets;
}

class HashSparseMethod final : public internal::PrefillSelector {
 public:
  HashSparseMethod() : PrefillSelector(HashSparseSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    const Directions directions(internal::RandomPlanes(values.Integer("num_buckets") / 2, problem.head_dim,
                                                       static_cast<uint64_t>(values.Integer("seed"))),
                                problem.head_dim);
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
              std::vector<char> wanted(directions.NumBuckets(), 0);
              for (int32_t row = begin; row < end; ++row)
                wanted[static_cast<size_t>(of_queries[static_cast<size_t>(row)])] = 1;
              const size_t seen = static_cast<size_t>(problem.first_position) + static_cast<size_t>(end);
              for (size_t key = 0; key < seen; ++key) (*kept)[key] = wanted[static_cast<size_t>(of_keys[key])];
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
