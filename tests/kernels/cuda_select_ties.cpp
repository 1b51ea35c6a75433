#include "cuda_select_ties.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

namespace headscope::kernels::testing {
namespace {

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

// Distance of the last of the `count` largest values to the next one, in units of `unit(last)`.
bool CutIsATie(std::vector<double> values, size_t count, const std::function<double(double)>& unit) {
  if (count == 0 || count >= values.size()) return false;
  std::sort(values.begin(), values.end(), std::greater<>());
  return values[count - 1] - values[count] <= kTie * unit(values[count - 1]);
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

bool LineChoiceIsATie(const RandomProblem& problem, const ParameterValues& values, int32_t sequence, int32_t head) {
  const int32_t seq_q = problem.shape.seq_q;
  const LineMass mass = SumLines(problem, sequence, head, std::max(0, seq_q - values.Integer("last_q")), seq_q);
  auto is_a_tie = [](std::vector<double> sums, int count, int forced) {
    const auto num_forced = std::min(static_cast<size_t>(forced), sums.size());
    if (static_cast<size_t>(count) <= num_forced) return false;
    sums.erase(sums.begin(), sums.begin() + static_cast<int64_t>(num_forced));
    return CutIsATie(sums, static_cast<size_t>(count) - num_forced, [](double sum) { return sum; });
  };
  return is_a_tie(mass.columns, values.Integer("n_vertical"), values.Integer("forced_columns")) ||
         is_a_tie(mass.slashes, values.Integer("n_slash"), values.Integer("forced_slashes"));
}

bool StripeChoiceIsATie(const std::vector<double>& lines, double share) {
  if (share >= 1) return false;
  std::vector<double> stripes((lines.size() + 127) / 128);
  for (size_t line = 0; line < lines.size(); ++line) stripes[line / 128] += lines[line];
  const double total = std::accumulate(stripes.begin(), stripes.end(), 0.0);
  std::sort(stripes.begin(), stripes.end(), std::greater<>());
  double reached = 0;
  size_t count = 0;
  while (count < stripes.size() && reached < share * total) reached += stripes[count++];
  const double before = count > 0 ? reached - stripes[count - 1] : reached;
  return CutIsATie(stripes, count, [](double mass) { return mass; }) ||
         std::abs(reached - share * total) <= kTie * total || std::abs(before - share * total) <= kTie * total;
}

bool SampleChoiceIsATie(const RandomProblem& problem, const ParameterValues& values, int32_t sequence, int32_t head) {
  const int64_t seq_q = problem.shape.seq_q;
  const int64_t chunks = std::min<int64_t>(values.Integer("chunk_n"), seq_q);
  int64_t begin = 0;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int64_t end = (seq_q * (chunk + 1) + chunks / 2) / chunks;
    const LineMass mass =
        SumLines(problem, sequence, head, static_cast<int32_t>(std::max(begin, end - 128)), static_cast<int32_t>(end));
    if (StripeChoiceIsATie(mass.columns, values.Real("alpha_c")) ||
        StripeChoiceIsATie(mass.slashes, values.Real("alpha_s"))) {
      return true;
    }
    begin = end;
  }
  return false;
}

std::vector<double> MeanRow(const OwnedTensor& tensor, int32_t sequence, int32_t head, int32_t begin, int32_t end,
                            int32_t head_dim) {
  std::vector<double> mean(static_cast<size_t>(head_dim));
  for (int32_t row = begin; row < end; ++row) {
    const std::vector<double> values = Row(tensor, sequence, head, row, head_dim);
    for (size_t d = 0; d < mean.size(); ++d) mean[d] += values[d] / (end - begin);
  }
  return mean;
}

bool BlockChoiceIsATie(const RandomProblem& problem, const ParameterValues& values, int32_t sequence, int32_t head,
                       int32_t tile) {
  const ProblemShape& shape = problem.shape;
  const int32_t kv_head = head / (shape.num_qo_heads / shape.num_kv_heads);
  const int32_t num_keys = shape.first_position + shape.seq_q;
  for (int32_t begin = tile * 128; begin < std::min(tile * 128 + 128, shape.seq_q); begin += 64) {
    const int32_t end = std::min(begin + 64, shape.seq_q);
    const std::vector<double> query = MeanRow(problem.q, sequence, head, begin, end, shape.head_dim);
    std::vector<double> scores;
    double longest = 0;
    for (int32_t key = 0; key <= (shape.first_position + end - 1) / 64 * 64; key += 64) {
      const std::vector<double> mean =
          MeanRow(problem.k, sequence, kv_head, key, std::min(key + 64, num_keys), shape.head_dim);
      scores.push_back(Dot(query, mean));
      longest = std::max(longest, std::sqrt(Dot(query, query) * Dot(mean, mean)));
    }
    if (CutIsATie(scores, static_cast<size_t>(values.Integer("n_blocks")), [&](double) { return longest; }))
      return true;
  }
  return false;
}

}  // namespace

bool ChoiceIsATie(const std::string& method, const RandomProblem& problem, const ParameterValues& values,
                  int32_t sequence, int32_t head, int32_t tile) {
  if (method == "vertical-slash") return LineChoiceIsATie(problem, values, sequence, head);
  if (method == "sample-attention") return SampleChoiceIsATie(problem, values, sequence, head);
  if (method == "block-sparse") return BlockChoiceIsATie(problem, values, sequence, head, tile);
  return false;
}

}  // namespace headscope::kernels::testing
