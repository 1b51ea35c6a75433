// SPDX-License-Identifier: Apache-2.0
#include "cuda_select_ties.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace headscope::kernels::testing {
namespace {

constexpr int32_t kBlockRows = 64;  // rows that share what is kept
constexpr int32_t kStripe = 128;

std::vector<double> Row(const OwnedTensor& tensor, int32_t sequence, int32_t head, int32_t row, int32_t head_dim) {
  std::vector<double> values(static_cast<size_t>(head_dim));
  for (int32_t d = 0; d < head_dim; ++d) {
    values[static_cast<size_t>(d)] = static_cast<double>(tensor.Get(sequence, head, row, d));
  }
  return values;
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Scores from `certain` on are chosen whichever way ties fall; below `possible` none is.
struct Cut {
  double certain = -std::numeric_limits<double>::infinity();
  double possible = -std::numeric_limits<double>::infinity();

  bool IsCertain(double score) const { return score >= certain; }
  bool IsPossible(double score) const { return score >= possible; }
};

// The cut between the `fewest` largest scores, which are chosen for sure, and what lies behind the `most` largest.
// Scores closer than `unit_of(score)` ties are one to it.
Cut CutBetween(std::vector<double> scores, size_t fewest, size_t most, const std::function<double(double)>& unit_of) {
  std::sort(scores.begin(), scores.end(), std::greater<>());
  Cut cut;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (fewest < scores.size()) cut.certain = std::nextafter(scores[fewest] + kTie * unit_of(scores[fewest]), kInfinity);
  if (most == 0) cut.possible = kInfinity;
  if (most > 0 && most < scores.size()) cut.possible = scores[most - 1] - kTie * unit_of(scores[most - 1]);
  return cut;
}

struct LineMass {
  std::vector<double> columns;
  std::vector<double> slashes;
};

// Exact causal softmax of query rows [begin, end), summed along columns and diagonals.
LineMass SumLines(const RandomProblem& problem, int32_t sequence, int32_t head, int32_t begin, int32_t end) {
  const ProblemShape& shape = problem.shape;
  const int32_t kv_head = head / (shape.num_qo_heads / shape.num_kv_heads);
  const int32_t num_keys = shape.first_position + shape.seq_q;
  const double scale = problem.scale != 0 ? static_cast<double>(problem.scale) : 1 / std::sqrt(shape.head_dim);
  const auto cap = static_cast<double>(problem.soft_cap);
  std::vector<std::vector<double>> queries;
  for (int32_t row = begin; row < end; ++row) queries.push_back(Row(problem.q, sequence, head, row, shape.head_dim));
  std::vector<std::vector<double>> scores(queries.size());
  for (int32_t key = 0; key < num_keys; ++key) {
    const std::vector<double> k = Row(problem.k, sequence, kv_head, key, shape.head_dim);
    for (size_t i = 0; i < queries.size(); ++i) {
      if (key > shape.first_position + begin + static_cast<int32_t>(i)) continue;
      const double score = scale * Dot(queries[i], k);
      scores[i].push_back(cap > 0 ? cap * std::tanh(score / cap) : score);
    }
  }
  LineMass mass{std::vector<double>(static_cast<size_t>(num_keys)), std::vector<double>(static_cast<size_t>(num_keys))};
  for (const std::vector<double>& row : scores) {
    const double best = *std::max_element(row.begin(), row.end());
    double total = 0;
    for (const double score : row) total += std::exp(score - best);
    for (size_t key = 0; key < row.size(); ++key) {
      const double p = std::exp(row[key] - best) / total;
      mass.columns[key] += p;
      mass.slashes[row.size() - 1 - key] += p;
    }
  }
  return mass;
}

double Itself(double score) {
  return score;
}

// The `forced` first lines and the best others, `count` in all.
class LinePick {
 public:
  LinePick(std::vector<double> sums, int32_t count, int32_t forced) : sums_(std::move(sums)) {
    const size_t num_chosen = std::min(static_cast<size_t>(count), sums_.size());
    num_forced_ = std::min(static_cast<size_t>(forced), num_chosen);
    const size_t wanted = num_chosen - num_forced_;
    cut_ = CutBetween({sums_.begin() + static_cast<int64_t>(num_forced_), sums_.end()}, wanted, wanted, Itself);
  }
  // Calls use(line, is_certain) for every line that may be chosen.
  template <class Use>
  void ForEach(Use&& use) const {
    for (size_t line = 0; line < sums_.size(); ++line) {
      const bool is_forced = line < num_forced_;
      if (is_forced || cut_.IsPossible(sums_[line]))
        use(static_cast<int64_t>(line), is_forced || cut_.IsCertain(sums_[line]));
    }
  }

 private:
  std::vector<double> sums_;
  size_t num_forced_;
  Cut cut_;
};

class VerticalSlashChoice final : public HeadChoice {
 public:
  VerticalSlashChoice(const RandomProblem& problem, const ParameterValues& values, int32_t sequence, int32_t head)
      : VerticalSlashChoice(
            problem.shape, values,
            SumLines(problem, sequence, head, std::max(0, problem.shape.seq_q - values.Integer("last_q")),
                     problem.shape.seq_q)) {}

  KeyBounds BoundsOfRows(int32_t first_row) const override {
    KeyBounds bounds(shape_.first_position + shape_.seq_q);
    columns_.ForEach([&](int64_t column, bool is_certain) { bounds.Keep(column, column + 1, is_certain); });
    const int64_t position = int64_t{shape_.first_position} + first_row;
    slashes_.ForEach([&](int64_t slash, bool is_certain) {
      bounds.Keep(position - slash, position - slash + kBlockRows, is_certain);
    });
    bounds.Seal();
    return bounds;
  }

 private:
  VerticalSlashChoice(const ProblemShape& shape, const ParameterValues& values, LineMass mass)
      : shape_(shape),
        columns_(std::move(mass.columns), values.Integer("n_vertical"), values.Integer("forced_columns")),
        slashes_(std::move(mass.slashes), values.Integer("n_slash"), values.Integer("forced_slashes")) {}

  ProblemShape shape_;
  LinePick columns_;
  LinePick slashes_;
};

// The fewest stripes that hold a share of the mass.
class StripePick {
 public:
  StripePick(const std::vector<double>& lines, double share) : stripes_((lines.size() + kStripe - 1) / kStripe) {
    for (size_t line = 0; line < lines.size(); ++line) stripes_[line / kStripe] += lines[line];
    if (share >= 1) return;
    std::vector<double> sorted = stripes_;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const double total = std::accumulate(sorted.begin(), sorted.end(), 0.0);
    auto count_to = [&](double target) {
      double reached = 0;
      size_t count = 0;
      while (count < sorted.size() && reached < target) reached += sorted[count++];
      return count;
    };
    if (share <= 0) {
      cut_ = CutBetween(stripes_, 0, 0, Itself);
    } else {
      cut_ = CutBetween(stripes_, count_to((share - kTie) * total), count_to((share + kTie) * total), Itself);
    }
  }
  template <class Use>
  void ForEach(Use&& use) const {
    for (size_t stripe = 0; stripe < stripes_.size(); ++stripe) {
      if (cut_.IsPossible(stripes_[stripe])) use(static_cast<int64_t>(stripe), cut_.IsCertain(stripes_[stripe]));
    }
  }

 private:
  std::vector<double> stripes_;
  Cut cut_;
};

class SampleChoice final : public HeadChoice {
 public:
  SampleChoice(const RandomProblem& problem, const ParameterValues& values, int32_t sequence, int32_t head)
      : shape_(problem.shape),
        own_rows_only_(values.Flag("own_rows_only")),
        keep_diagonal_(values.Flag("keep_diagonal")) {
    // Of Table 6 the one entry that a case asks for: glm4-fast up to 16K tokens.
    const bool table = values.Integer("by_length") != 0;
    const double alpha_c = table ? 0.85 : values.Real("alpha_c"), alpha_s = table ? 0.85 : values.Real("alpha_s");
    const int64_t num_chunks = std::min<int64_t>(table ? 1 : values.Integer("chunk_n"), shape_.seq_q);
    int32_t begin = 0;
    for (int64_t chunk = 0; chunk < num_chunks; ++chunk) {
      const auto end = static_cast<int32_t>((shape_.seq_q * (chunk + 1) + num_chunks / 2) / num_chunks);
      const LineMass mass = SumLines(problem, sequence, head, std::max(begin, end - kStripe), end);
      chunks_.push_back({begin, end, StripePick(mass.columns, alpha_c), StripePick(mass.slashes, alpha_s)});
      begin = end;
    }
  }

  KeyBounds BoundsOfRows(int32_t first_row) const override {
    KeyBounds bounds(shape_.first_position + shape_.seq_q);
    const int32_t tile_row = first_row / kStripe * kStripe;
    const int64_t first = int64_t{shape_.first_position} + tile_row;
    for (const Chunk& chunk : chunks_) {
      if (own_rows_only_ && (chunk.row_end <= tile_row || chunk.row_begin >= tile_row + kStripe)) continue;
      chunk.columns.ForEach(
          [&](int64_t stripe, bool is_certain) { bounds.Keep(stripe * kStripe, (stripe + 1) * kStripe, is_certain); });
      // Whole key blocks that some diagonal of the stripe meets in some row of the tile.
      chunk.slashes.ForEach([&](int64_t stripe, bool is_certain) {
        const int64_t nearest = first + kStripe - 1 - stripe * kStripe;
        const int64_t farthest = first - (stripe + 1) * kStripe + 1;
        if (nearest < 0) return;
        bounds.Keep(std::max<int64_t>(farthest, 0) / kStripe * kStripe, (nearest / kStripe + 1) * kStripe, is_certain);
      });
    }
    if (keep_diagonal_) bounds.Keep(first / kStripe * kStripe, first + kStripe, true);
    bounds.Seal();
    return bounds;
  }

 private:
  struct Chunk {
    int32_t row_begin;
    int32_t row_end;
    StripePick columns;
    StripePick slashes;
  };

  ProblemShape shape_;
  bool own_rows_only_;
  bool keep_diagonal_;
  std::vector<Chunk> chunks_;
};

std::vector<double> MeanRow(const OwnedTensor& tensor, int32_t sequence, int32_t head, int32_t begin, int32_t end,
                            int32_t head_dim) {
  std::vector<double> mean(static_cast<size_t>(head_dim));
  for (int32_t row = begin; row < end; ++row) {
    const std::vector<double> values = Row(tensor, sequence, head, row, head_dim);
    for (size_t d = 0; d < mean.size(); ++d) mean[d] += values[d] / (end - begin);
  }
  return mean;
}

class BlockSparseChoice final : public HeadChoice {
 public:
  BlockSparseChoice(const RandomProblem& problem, const ParameterValues& values, int32_t sequence, int32_t head)
      : problem_(problem),
        sequence_(sequence),
        head_(head),
        num_kept_(static_cast<size_t>(values.Integer("n_blocks"))) {
    const ProblemShape& shape = problem.shape;
    const int32_t kv_head = head / (shape.num_qo_heads / shape.num_kv_heads);
    const int32_t num_keys = shape.first_position + shape.seq_q;
    for (int32_t key = 0; key < num_keys; key += kBlockRows) {
      keys_.push_back(MeanRow(problem.k, sequence, kv_head, key, std::min(key + kBlockRows, num_keys), shape.head_dim));
    }
  }

  KeyBounds BoundsOfRows(int32_t first_row) const override {
    const ProblemShape& shape = problem_.shape;
    const int32_t end_row = std::min(first_row + kBlockRows, shape.seq_q);
    const std::vector<double> query = MeanRow(problem_.q, sequence_, head_, first_row, end_row, shape.head_dim);
    const auto num_causal = static_cast<size_t>((shape.first_position + end_row - 1) / kBlockRows + 1);
    std::vector<double> scores;
    double longest = 0;
    for (size_t block = 0; block < num_causal; ++block) {
      scores.push_back(Dot(query, keys_[block]));
      longest = std::max(longest, std::sqrt(Dot(query, query) * Dot(keys_[block], keys_[block])));
    }
    const Cut cut = CutBetween(scores, num_kept_, num_kept_, [&](double) { return longest; });
    KeyBounds bounds(shape.first_position + shape.seq_q);
    for (size_t block = 0; block < num_causal; ++block) {
      const auto begin = static_cast<int64_t>(block) * kBlockRows;
      if (cut.IsPossible(scores[block])) bounds.Keep(begin, begin + kBlockRows, cut.IsCertain(scores[block]));
    }
    bounds.Seal();
    return bounds;
  }

 private:
  const RandomProblem& problem_;
  int32_t sequence_;
  int32_t head_;
  size_t num_kept_;
  std::vector<std::vector<double>> keys_;
};

// Key blocks of a share of the mass: how many of the largest reach `target`.
size_t CountToReach(const std::vector<double>& descending, double target) {
  size_t count = 0;
  for (double reached = 0; count < descending.size() && reached < target; ++count) reached += descending[count];
  return count;
}

double ScaleOf(const RandomProblem& problem) {
  return problem.scale != 0 ? static_cast<double>(problem.scale) : 1 / std::sqrt(problem.shape.head_dim);
}
double Capped(const RandomProblem& problem, double score) {
  const auto cap = static_cast<double>(problem.soft_cap);
  return cap > 0 ? cap * std::tanh(score / cap) : score;
}

// In place: exp(score - best) by their sum.
void Softmax(std::vector<double>* scores) {
  const double best = *std::max_element(scores->begin(), scores->end());
  double total = 0;
  for (double& score : *scores) total += score = std::exp(score - best);
  for (double& score : *scores) score /= total;
}

// Of methods that choose key blocks for 128 query rows.
class RowBlockChoice : public HeadChoice {
 public:
  KeyBounds BoundsOfRows(int32_t first_row) const override {
    const int32_t row_block = first_row / kRowBlock;
    if (row_block != known_) {
      bounds_ = BoundsOfBlock(row_block * kRowBlock);
      bounds_.Seal();
      known_ = row_block;
    }
    return bounds_;
  }

 protected:
  static constexpr int32_t kRowBlock = 128;
  RowBlockChoice(const RandomProblem& problem, const ParameterValues& values, int32_t sequence, int32_t head)
      : problem_(problem),
        values_(values),
        sequence_(sequence),
        head_(head),
        kv_head_(head / (problem.shape.num_qo_heads / problem.shape.num_kv_heads)),
        num_keys_(problem.shape.first_position + problem.shape.seq_q),
        bounds_(0) {}

  virtual KeyBounds BoundsOfBlock(int32_t first_row) const = 0;

  int32_t EndRow(int32_t first_row) const { return std::min(first_row + kRowBlock, problem_.shape.seq_q); }

  const RandomProblem& problem_;
  const ParameterValues& values_;
  const int32_t sequence_, head_, kv_head_, num_keys_;

 private:
  mutable int32_t known_ = -1;
  mutable KeyBounds bounds_;
};

class XAttentionChoice final : public RowBlockChoice {
 public:
  XAttentionChoice(const RandomProblem& problem, const ParameterValues& values, int32_t sequence, int32_t head)
      : RowBlockChoice(problem, values, sequence, head), stride_(4 << values.Integer("stride")) {
    for (int32_t key = 0; key < num_keys_; ++key)
      keys_.push_back(Row(problem.k, sequence, kv_head_, key, problem.shape.head_dim));
  }

 private:
  KeyBounds BoundsOfBlock(int32_t first_row) const override {
    const int32_t first = problem_.shape.first_position;
    const int32_t end_row = EndRow(first_row);
    std::vector<double> mass(static_cast<size_t>((first + end_row - 1) / kRowBlock + 1));
    for (int32_t row = first_row; row < end_row; row += stride_) AddGroup(row, &mass);
    const double total = std::accumulate(mass.begin(), mass.end(), 0.0);
    std::vector<double> others;
    double forced = 0;
    const auto is_forced = [&](size_t block) {
      return values_.Flag("force_ends") &&
             (block == 0 || static_cast<int32_t>(block) >= (first + first_row) / kRowBlock);
    };
    for (size_t block = 0; block < mass.size(); ++block) {
      if (is_forced(block)) {
        forced += mass[block];
      } else {
        others.push_back(mass[block]);
      }
    }
    std::sort(others.begin(), others.end(), std::greater<>());
    const double tau = values_.Real("tau");
    Cut cut;
    if (tau < 1) {
      cut = CutBetween(others, tau > 0 ? CountToReach(others, (tau - kTie) * total - forced) : 0,
                       tau > 0 ? CountToReach(others, (tau + kTie) * total - forced) : 0, Itself);
    }
    KeyBounds bounds(num_keys_);
    for (size_t block = 0; block < mass.size(); ++block) {
      if (!is_forced(block) && !cut.IsPossible(mass[block])) continue;
      const auto begin = static_cast<int64_t>(block) * kRowBlock;
      bounds.Keep(begin, begin + kRowBlock, is_forced(block) || cut.IsCertain(mass[block]));
    }
    return bounds;
  }

  // The mass of the query group from `row` on, by key blocks.
  void AddGroup(int32_t row, std::vector<double>* mass) const {
    const ProblemShape& shape = problem_.shape;
    const int32_t end = std::min(row + stride_, shape.seq_q);
    std::vector<std::vector<double>> queries;
    for (int32_t r = row; r < end; ++r) queries.push_back(Row(problem_.q, sequence_, head_, r, shape.head_dim));
    std::vector<double> scores;
    for (int32_t key = 0; key <= shape.first_position + end - 1; key += stride_) {
      double sum = 0;
      for (int32_t s = 0; s < stride_ && key + s < num_keys_; ++s) {
        const auto place = static_cast<size_t>(stride_ - 1 - s);
        if (place < queries.size()) sum += Dot(queries[place], keys_[static_cast<size_t>(key + s)]);
      }
      scores.push_back(Capped(problem_, sum * ScaleOf(problem_) / stride_));
    }
    Softmax(&scores);
    for (size_t group = 0; group < scores.size(); ++group)
      (*mass)[group * static_cast<size_t>(stride_) / kRowBlock] += scores[group];
  }

  const int32_t stride_;
  std::vector<std::vector<double>> keys_;
};

class SpargeChoice final : public RowBlockChoice {
 public:
  SpargeChoice(const RandomProblem& problem, const ParameterValues& values, int32_t sequence, int32_t head)
      : RowBlockChoice(problem, values, sequence, head) {
    const int32_t head_dim = problem.shape.head_dim;
    std::vector<double> centre(static_cast<size_t>(head_dim));
    if (values.Flag("centre")) centre = MeanRow(problem.k, sequence, kv_head_, 0, num_keys_, head_dim);
    for (int32_t key = 0; key < num_keys_; key += kBlockRows) {
      const int32_t end = std::min(key + kBlockRows, num_keys_);
      keys_.push_back(MeanRow(problem.k, sequence, kv_head_, key, end, head_dim));
      for (size_t d = 0; d < centre.size(); ++d) keys_.back()[d] -= centre[d];
      likeness_.push_back(Likeness(problem.k, kv_head_, key, end, centre));
    }
  }

 private:
  // Of rows less `shift`, above theta: 1 alike, 0 not, 1/2 where fp32 cannot tell.
  double Likeness(const OwnedTensor& tensor, int32_t head, int32_t begin, int32_t end,
                  const std::vector<double>& shift) const {
    const bool by_largest = values_.Integer("similarity") == 0;
    std::vector<std::vector<double>> rows;
    double largest = 0;
    for (int32_t r = begin; r < end; ++r) {
      rows.push_back(Row(tensor, sequence_, head, r, problem_.shape.head_dim));
      for (size_t d = 0; d < shift.size(); ++d) rows.back()[d] -= shift[d];
      largest = std::max(largest, Dot(rows.back(), rows.back()));
    }
    if (largest == 0) return by_largest || 0 > values_.Real("theta") ? 1 : 0;
    double sum = 0;  // of all products of two rows, each once
    for (size_t i = 0; i < rows.size(); ++i) {
      for (size_t j = 0; j <= i; ++j) {
        const double product = Dot(rows[i], rows[j]);
        const double norms = std::sqrt(Dot(rows[i], rows[i]) * Dot(rows[j], rows[j]));
        sum += (i == j ? 1 : 2) * (by_largest ? product / largest : norms > 0 ? product / norms : 0);
      }
    }
    const double above = sum / static_cast<double>(rows.size() * rows.size()) - values_.Real("theta");
    return std::abs(above) < kTie ? 0.5 : above > 0 ? 1 : 0;
  }

  KeyBounds BoundsOfBlock(int32_t first_row) const override {
    const ProblemShape& shape = problem_.shape;
    const int32_t end_row = EndRow(first_row);
    const std::vector<double> query = MeanRow(problem_.q, sequence_, head_, first_row, end_row, shape.head_dim);
    const double of_rows =
        Likeness(problem_.q, head_, first_row, end_row, std::vector<double>(static_cast<size_t>(shape.head_dim)));
    const auto num_causal = static_cast<size_t>((shape.first_position + end_row - 1) / kBlockRows + 1);
    std::vector<double> numbers;  // of key blocks that are alike
    std::vector<size_t> place(num_causal);
    double longest = 0;
    bool settled = of_rows != 0.5;
    for (size_t block = 0; block < num_causal; ++block) {
      settled = settled && likeness_[block] != 0.5;
      if (likeness_[block] != 1) continue;
      place[block] = numbers.size();
      numbers.push_back(Capped(problem_, ScaleOf(problem_) * Dot(query, keys_[block])));
      longest = std::max(longest,
                         std::abs(ScaleOf(problem_)) * std::sqrt(Dot(query, query) * Dot(keys_[block], keys_[block])));
    }
    Cut cut;
    if (!numbers.empty()) cut = CutOf(&numbers, longest);
    KeyBounds bounds(num_keys_);
    for (size_t block = 0; block < num_causal; ++block) {
      const bool unasked = of_rows == 0 || likeness_[block] == 0;
      const bool possible = unasked || !settled || cut.IsPossible(numbers[place[block]]);
      const bool certain = unasked || (settled && cut.IsCertain(numbers[place[block]]));
      const auto begin = static_cast<int64_t>(block) * kBlockRows;
      if (possible) bounds.Keep(begin, begin + kBlockRows, certain);
    }
    return bounds;
  }

  // Turns scores into masses where these are what is cut.
  Cut CutOf(std::vector<double>* numbers, double longest) const {
    if (values_.Integer("rule") == 1) {
      const double wanted = std::floor(values_.Real("tau") * static_cast<double>(keys_.size()) + 1e-9);
      const auto count = static_cast<size_t>(std::max(1.0, wanted));
      return CutBetween(*numbers, count, count, [&](double) { return longest; });
    }
    Softmax(numbers);
    const double tau = values_.Real("tau");
    if (tau >= 1) return {};
    std::vector<double> sorted = *numbers;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const auto count_within = [&](double limit) {
      size_t count = 1;
      for (double reached = sorted[0]; count < sorted.size() && reached + sorted[count] <= limit; ++count)
        reached += sorted[count];
      return count;
    };
    return CutBetween(*numbers, count_within(tau - kTie), count_within(tau + kTie),
                      [&](double mass) { return mass * (1 + longest); });
  }

  std::vector<std::vector<double>> keys_;
  std::vector<double> likeness_;
};

// FlexPrefill's way, lines and map of one head.
class FlexChoice final : public RowBlockChoice {
 public:
  FlexChoice(const RandomProblem& problem, const ParameterValues& values, int32_t sequence, int32_t head)
      : RowBlockChoice(problem, values, sequence, head) {
    const ProblemShape& shape = problem.shape;
    const int32_t begin = std::max(0, shape.seq_q - kStripe);
    const LineMass lines = SumLines(problem, sequence, head, begin, shape.seq_q);
    for (int32_t key = 0; key < num_keys_; key += kStripe) {
      keys_.push_back(MeanRow(problem.k, sequence, kv_head_, key, std::min(key + kStripe, num_keys_), shape.head_dim));
    }
    columns_ = StripeMass(lines.columns);
    slashes_ = StripeMass(lines.slashes);
    const double distance = Distance(MeanRow(problem.q, sequence, head, begin, shape.seq_q, shape.head_dim));
    const double tau = values.Real("tau");
    settled_ = std::abs(distance - tau) > 1e-4;
    by_means_ = distance < tau;
    const auto least = static_cast<size_t>(std::max((values.Integer("min_budget") + kStripe - 1) / kStripe, 1));
    const double gamma = values.Real("gamma");
    const auto cut_of = [&](std::vector<double>* stripes, std::vector<double> sorted) {
      stripes->front() = std::numeric_limits<double>::infinity();
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      const double total = std::accumulate(sorted.begin(), sorted.end(), 0.0);
      size_t fewest = least, most = least;
      if (!by_means_) {
        const auto stripes_of = [&](double share) {
          const size_t count = gamma >= 1 ? sorted.size() : gamma <= 0 ? 0 : CountToReach(sorted, share * total);
          return count / kStripe + 1;
        };
        fewest = std::max(fewest, stripes_of(gamma - kTie));
        most = std::max(most, stripes_of(gamma + kTie));
      }
      // Equal ones at infinity: only the first stripe's, which is chosen first.
      return CutBetween(*stripes, fewest, most, [](double mass) { return std::isfinite(mass) ? mass : 1.0; });
    };
    column_cut_ = cut_of(&columns_, lines.columns);
    slash_cut_ = cut_of(&slashes_, lines.slashes);
    if (by_means_ && settled_) MakeMap();
  }

 private:
  static std::vector<double> StripeMass(const std::vector<double>& lines) {
    std::vector<double> stripes((lines.size() + kStripe - 1) / kStripe);
    for (size_t line = 0; line < lines.size(); ++line) stripes[line / kStripe] += lines[line];
    return stripes;
  }

  // Softmax over the first `count` mean keys; *longest: of the products of two lengths, scaled.
  std::vector<double> Predicted(const std::vector<double>& query, size_t count, double* longest) const {
    std::vector<double> shares;
    for (size_t block = 0; block < count; ++block) {
      shares.push_back(Capped(problem_, ScaleOf(problem_) * Dot(query, keys_[block])));
      *longest = std::max(*longest,
                          std::abs(ScaleOf(problem_)) * std::sqrt(Dot(query, query) * Dot(keys_[block], keys_[block])));
    }
    Softmax(&shares);
    return shares;
  }

  // Square root of the divergence of the representative rows' attention from its prediction.
  double Distance(const std::vector<double>& query) const {
    double longest = 0;
    const std::vector<double> predicted = Predicted(query, keys_.size(), &longest);
    const double total = std::accumulate(columns_.begin(), columns_.end(), 0.0);
    double divergence = 0;
    for (size_t block = 0; block < keys_.size(); ++block) {
      const double x = predicted[block], y = columns_[block] / total;
      if (x > 0) divergence += x / 2 * (std::log2(x) - std::log2((x + y) / 2));
      if (y > 0) divergence += y / 2 * (std::log2(y) - std::log2((x + y) / 2));
    }
    return std::sqrt(std::max(divergence * std::log(2.0), 0.0));
  }

  int32_t NumCausal(int32_t first_row) const {
    return (problem_.shape.first_position + EndRow(first_row) - 1) / kStripe + 1;
  }

  void MakeMap() {
    const ProblemShape& shape = problem_.shape;
    double longest = 0;
    std::vector<double> all;
    for (int32_t row = 0; row < shape.seq_q; row += kRowBlock) {
      map_.push_back(Predicted(MeanRow(problem_.q, sequence_, head_, row, EndRow(row), shape.head_dim),
                               static_cast<size_t>(NumCausal(row)), &longest));
      all.insert(all.end(), map_.back().begin(), map_.back().end());
    }
    const double gamma = values_.Real("gamma");
    if (gamma >= 1) return;
    std::sort(all.begin(), all.end(), std::greater<>());
    const auto total = static_cast<double>(map_.size());
    const size_t fewest = gamma > 0 ? CountToReach(all, (gamma - kTie) * total) : 0;
    const size_t most = gamma > 0 ? CountToReach(all, (gamma + kTie) * total) : 0;
    map_cut_ = CutBetween(all, fewest, most, [&](double mass) { return mass * (1 + longest); });
  }

  KeyBounds BoundsOfBlock(int32_t first_row) const override {
    KeyBounds bounds(num_keys_);
    if (!settled_) {
      bounds.Keep(0, num_keys_, false);
      return bounds;
    }
    const int32_t num_causal = NumCausal(first_row);
    const auto keep = [&](int32_t block, const Cut& cut, double score) {
      if (cut.IsPossible(score))
        bounds.Keep(int64_t{block} * kStripe, (int64_t{block} + 1) * kStripe, cut.IsCertain(score));
    };
    for (int32_t block = 0; block < num_causal; ++block) {
      const auto place = static_cast<size_t>(block);
      keep(block, column_cut_, columns_[place]);
      if (by_means_) keep(block, map_cut_, map_[static_cast<size_t>(first_row / kRowBlock)][place]);
      for (int32_t own = (problem_.shape.first_position + first_row) / kStripe; own < num_causal; ++own) {
        if (own >= block) keep(block, slash_cut_, slashes_[static_cast<size_t>(own - block)]);
      }
    }
    return bounds;
  }

  std::vector<std::vector<double>> keys_;  // means
  std::vector<double> columns_, slashes_;  // stripes' mass
  std::vector<std::vector<double>> map_;   // [row block][key block]
  Cut column_cut_, slash_cut_, map_cut_;
  bool by_means_ = false, settled_ = false;
};

std::vector<int32_t> CountsBefore(const std::vector<bool>& flags) {
  std::vector<int32_t> counts(flags.size() + 1);
  for (size_t i = 0; i < flags.size(); ++i) counts[i + 1] = counts[i] + (flags[i] ? 1 : 0);
  return counts;
}

}  // namespace

void KeyBounds::Keep(int64_t begin, int64_t end, bool is_certain) {
  const auto num_keys = static_cast<int64_t>(possible_.size());
  for (int64_t key = std::max<int64_t>(begin, 0); key < std::min(end, num_keys); ++key) {
    possible_[static_cast<size_t>(key)] = true;
    if (is_certain) certain_[static_cast<size_t>(key)] = true;
  }
}

void KeyBounds::Seal() {
  certain_before_ = CountsBefore(certain_);
  possible_before_ = CountsBefore(possible_);
}

bool KeyBounds::Allow(int32_t position, const std::vector<ColumnRange>& kept) const {
  int32_t num_certain = 0;
  for (const ColumnRange& range : kept) {
    const auto begin = static_cast<size_t>(range.begin);
    const auto end = static_cast<size_t>(range.end);
    if (possible_before_[end] - possible_before_[begin] != range.end - range.begin) return false;
    num_certain += certain_before_[end] - certain_before_[begin];
  }
  return num_certain == certain_before_[static_cast<size_t>(position) + 1];
}

std::unique_ptr<HeadChoice> ChoiceOfHead(const std::string& method, const RandomProblem& problem,
                                         const ParameterValues& values, int32_t sequence, int32_t head) {
  if (method == "vertical-slash") return std::make_unique<VerticalSlashChoice>(problem, values, sequence, head);
  if (method == "sample-attention") return std::make_unique<SampleChoice>(problem, values, sequence, head);
  if (method == "block-sparse") return std::make_unique<BlockSparseChoice>(problem, values, sequence, head);
  if (method == "x-attention") return std::make_unique<XAttentionChoice>(problem, values, sequence, head);
  if (method == "sparge-attn") return std::make_unique<SpargeChoice>(problem, values, sequence, head);
  if (method == "flex-prefill") return std::make_unique<FlexChoice>(problem, values, sequence, head);
  return nullptr;
}

}  // namespace headscope::kernels::testing
