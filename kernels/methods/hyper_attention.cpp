// SPDX-License-Identifier: Apache-2.0
// HyperAttention: queries and keys sorted by a hash meet in blocks, and a few keys are sampled for everybody.
//
// Source: HyperAttention: Long-context Attention in Near-Linear Time, Algorithms 1 to 4, and its released code. A
// prompt is halved: each half is treated the same way, and the second half's queries attend to the first half's keys
// without a causal mask, until `min_seq_len` tokens are left, which are exact. Without the mask, queries and keys are
// sorted by the sides of `num_planes` random planes on which they lie, Hamming neighbours next to each other (a Gray
// code); blocks of `block_size` sorted keys meet the queries of the same place, and `sample_size` keys drawn uniformly,
// with repeats, meet all of them. SampleAttention compares with buckets and samples of 256.
//
// The estimator gives sampled keys the weight of what they stand for; an index has no weights, and this is its mask. A
// list of headscope's index belongs to 64 rows, which keep what any of them chose. Planes and samples are drawn by
// `seed`: the sample of the half that begins at position p, of head h of its layer, by numbers of SplitMix64's stream
// RandomAt(RandomAt(seed, h + 1), p).
#include <algorithm>
#include <numeric>
#include <vector>

#include "common_parameters.h"
#include "head_groups.h"
#include "internal/element.h"
#include "problems/counter_random.h"
#include "registry.h"
#include "row_sets.h"
#include "selector.h"
#include "sim_hash.h"

namespace headscope::kernels {
namespace {

MethodSpec HyperAttentionSpec() {
  const auto tokens = [](const char* name, double value, double minimum, const char* help, const char* cost,
                         ParameterRole role = ParameterRole::kOther) {
    return ParameterSpec{.name = name,
                         .default_value = value,
                         .minimum = minimum,
                         .maximum = 1 << 20,
                         .step = 64,
                         .logarithmic = true,
                         .unit = Unit::kTokens,
                         .help = help,
                         .cost = cost,
                         .role = role};
  };
  return {
      .name = "hyper-attention",
      .title = "HyperAttention",
      .family = "hashing",
      .paper = "HyperAttention: Long-context Attention in Near-Linear Time, Algorithms 1 to 4",
      .summary =
          "Keeps, per block of 64 queries, the keys that hash sorting puts beside any of them, and sampled keys.",
      .always_keeps = "the diagonal blocks, which are exact",
      .selection_cost =
          "a hash of every query and key, 4 S num_planes d FLOPs, and their order, at every halving, a head",
      .phase = Phase::kPrefill,
      .chosen_per = ChosenPer::kQueryHead,
      .parameters =
          {
              tokens("block_size", 256, 1, "sorted keys of a block", "more pairs"),
              tokens("sample_size", 256, 0, "keys drawn for all queries of a half", "one more pair per row"),
              // A budget: halving that ends earlier makes a part exact that holds all of the parts it was cut into.
              tokens("min_seq_len", 4096, 1, "tokens that are attended to exactly", "more pairs near the diagonal",
                     ParameterRole::kBudget),
              {.name = "num_planes",
               .default_value = 7,
               .minimum = 1,
               .maximum = 24,
               .help = "bits of the hash",
               .cost = "finer sorting; more to compute per token"},
              internal::SeedParameter("the planes and samples"),
          },
  };
}

// Places in the order of Gray codes: neighbours differ on one plane.
std::vector<uint32_t> Hashes(const StridedTensor<const void>& tensor, DType dtype, int64_t offset, int32_t num_rows,
                             int32_t head_dim, const std::vector<float>& planes) {
  const auto width = static_cast<size_t>(head_dim);
  std::vector<uint32_t> hashes;
  std::vector<float> row(width);
  for (int32_t r = 0; r < num_rows; ++r) {
    internal::LoadRow(tensor.data, dtype, offset + r * tensor.row_stride, head_dim, row.data());
    uint32_t bits = 0;
    for (size_t plane = 0; plane < planes.size() / width; ++plane) {
      double side = 0;
      for (size_t d = 0; d < width; ++d)
        side += static_cast<double>(planes[plane * width + d]) * static_cast<double>(row[d]);
      bits |= (side > 0 ? 1u : 0u) << plane;
    }
    hashes.push_back(bits ^ (bits >> 1));
  }
  return hashes;
}

// Numbers of [begin, end) by hash, equal ones as they come.
std::vector<int32_t> Sorted(const std::vector<uint32_t>& hashes, int32_t begin, int32_t end) {
  std::vector<int32_t> order(static_cast<size_t>(end - begin));
  std::iota(order.begin(), order.end(), begin);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return hashes[static_cast<size_t>(a)] < hashes[static_cast<size_t>(b)];
  });
  return order;
}

// Queries [first_row, ..) of a head against keys [key_begin, key_end), which all lie in their past.
struct Meeting {
  int32_t row_begin = 0, row_end = 0;
  std::vector<int32_t> block_of_row = {};         // [row_end - row_begin]; -1: exact
  std::vector<std::vector<int32_t>> blocks = {};  // keys
  std::vector<int32_t> sample = {};
  int32_t key_begin = 0, key_end = 0;
};

class HyperAttentionHead {
 public:
  HyperAttentionHead(const AttentionProblem& problem, const ParameterValues& values, const std::vector<float>& planes,
                     int32_t sequence, int32_t kv_head)
      : problem_(problem),
        values_(values),
        planes_(planes),
        sequence_(sequence),
        of_keys_(Hashes(problem.k, problem.dtype, sequence * problem.k.batch_stride + kv_head * problem.k.head_stride,
                        internal::NumVisibleKeys(problem), problem.head_dim, planes)) {}

  void AddLists(int32_t head, const RunOptions& options, SparseIndexBuilder* builder) {
    of_queries_ =
        Hashes(problem_.q, problem_.dtype, sequence_ * problem_.q.batch_stride + head * problem_.q.head_stride,
               problem_.seq_q, problem_.head_dim, planes_);
    stream_ = problems::RandomAt(static_cast<uint64_t>(values_.Integer("seed")),
                                 static_cast<uint64_t>(problem_.first_qo_head + head) + 1);
    meetings_.clear();
    exact_.clear();
    stop_ = options.stop;
    Halve(0, internal::NumVisibleKeys(problem_));
    internal::AddRowSets(
        problem_, options, [this](int32_t begin, int32_t end, std::vector<char>* kept) { Mark(begin, end, kept); },
        builder);
  }

 private:
  void Halve(int32_t begin, int32_t end) {
    if (end <= problem_.first_position || stop_.stop_requested()) return;  // no query is there
    if (end - begin <= values_.Integer("min_seq_len")) {
      exact_.push_back({begin, end});
      return;
    }
    const int32_t middle = begin + (end - begin + 1) / 2;
    Halve(begin, middle);
    Halve(middle, end);
    Meet(begin, middle, end);
  }

  void Meet(int32_t begin, int32_t middle, int32_t end) {
    Meeting meeting{.row_begin = std::max(0, middle - problem_.first_position),
                    .row_end = end - problem_.first_position,
                    .key_begin = begin,
                    .key_end = middle};
    const int32_t num_rows = meeting.row_end - meeting.row_begin, size = values_.Integer("block_size");
    meeting.block_of_row.assign(static_cast<size_t>(num_rows), -1);
    if (end - middle >= values_.Integer("min_seq_len")) {
      const std::vector<int32_t> keys = Sorted(of_keys_, begin, middle);
      const int32_t num_blocks = (middle - begin + size - 1) / size;
      // Queries are padded to whole blocks as keys are; where rows are missing, blocks of queries are smaller.
      const int32_t rows_of_block = std::max(1, (num_rows + size - 1) / size * size / num_blocks);
      const std::vector<int32_t> rows = Sorted(of_queries_, meeting.row_begin, meeting.row_end);
      for (size_t rank = 0; rank < rows.size(); ++rank) {
        meeting.block_of_row[static_cast<size_t>(rows[rank] - meeting.row_begin)] =
            std::min(static_cast<int32_t>(rank) / rows_of_block, num_blocks - 1);
      }
      for (int32_t block = 0; block < num_blocks; ++block) {
        const int32_t first = block * size, last = std::min(first + size, middle - begin);
        meeting.blocks.emplace_back(keys.begin() + first, keys.begin() + last);
      }
      const uint64_t draw = problems::RandomAt(stream_, static_cast<uint64_t>(middle));
      for (int32_t i = 0; i < values_.Integer("sample_size"); ++i) {
        const uint32_t place =
            problems::RandomBelow(draw, static_cast<uint64_t>(i), static_cast<uint32_t>(middle - begin));
        meeting.sample.push_back(begin + static_cast<int32_t>(place));
      }
      // Drawn with replacement: many times the keys that there are, where the sample is large.
      std::ranges::sort(meeting.sample);
      meeting.sample.erase(std::unique(meeting.sample.begin(), meeting.sample.end()), meeting.sample.end());
      meeting.sample.shrink_to_fit();
    }
    meetings_.push_back(std::move(meeting));
  }

  void Mark(int32_t row_begin, int32_t row_end, std::vector<char>* kept) const {
    const int32_t first = problem_.first_position + row_begin, last = problem_.first_position + row_end;
    for (const ColumnRange& range : exact_) {
      if (range.begin < last && range.end > first)
        std::fill(kept->begin() + range.begin, kept->begin() + std::min(range.end, last), 1);
    }
    for (const Meeting& meeting : meetings_) {
      const int32_t begin = std::max(row_begin, meeting.row_begin), end = std::min(row_end, meeting.row_end);
      if (begin >= end) continue;
      if (meeting.blocks.empty()) {
        std::fill(kept->begin() + meeting.key_begin, kept->begin() + meeting.key_end, 1);
        continue;
      }
      std::vector<char> wanted(meeting.blocks.size(), 0);
      for (int32_t row = begin; row < end; ++row)
        wanted[static_cast<size_t>(meeting.block_of_row[static_cast<size_t>(row - meeting.row_begin)])] = 1;
      for (size_t block = 0; block < wanted.size(); ++block) {
        if (wanted[block] == 0) continue;
        for (const int32_t key : meeting.blocks[block]) (*kept)[static_cast<size_t>(key)] = 1;
      }
      for (const int32_t key : meeting.sample) (*kept)[static_cast<size_t>(key)] = 1;
    }
  }

  const AttentionProblem& problem_;
  const ParameterValues& values_;
  const std::vector<float>& planes_;
  const int32_t sequence_;
  const std::vector<uint32_t> of_keys_;
  std::vector<uint32_t> of_queries_;
  uint64_t stream_ = 0;
  std::stop_token stop_;
  std::vector<Meeting> meetings_;
  std::vector<ColumnRange> exact_;  // positions of queries and keys alike
};

class HyperAttentionMethod final : public internal::PrefillSelector {
 public:
  HyperAttentionMethod() : PrefillSelector(HyperAttentionSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    const std::vector<float> planes = internal::RandomPlanes(values.Integer("num_planes"), problem.head_dim,
                                                             static_cast<uint64_t>(values.Integer("seed")));
    return internal::SelectByHead(
        problem, options,
        [&](const internal::HeadGroup& group, SparseIndexBuilder* builder) {
          HyperAttentionHead selector(problem, values, planes, group.sequence, group.kv_head);
          for (int32_t i = 0; i < group.num_heads && !options.stop.stop_requested(); ++i)
            selector.AddLists(group.first_head + i, options, builder);
        },
        index);
  }
};

}  // namespace

const PrefillMethod& HyperAttention() {
  static const HyperAttentionMethod method;
  return method;
}

}  // namespace headscope::kernels
