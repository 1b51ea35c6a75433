// SPDX-License-Identifier: Apache-2.0
#include "synthetic_heads.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <random>
#include <stdexcept>

#include "analysis/tiles.h"
#include "kernels/cpu_scores.h"

namespace headscope::analysis::testing {
namespace {

void FillLse(HeadTensors* head) {
  head->lse.resize(static_cast<size_t>(head->num_rows));
  // What is written below would take half a minute of a head of 32K tokens.
  constexpr int64_t kMostPairs = int64_t{1} << 27;
  if (head->num_rows * head->num_tokens > kMostPairs) {
    if (!kernels::RowLse(head->Problem(), head->window, {}, head->lse.data()).ok()) throw std::runtime_error("no lse");
    return;
  }
  for (int64_t row = 0; row < head->num_rows; ++row) {
    const kernels::ColumnRange attended = head->AttendedColumns(row);
    double maximum = -1e300;
    std::vector<double> scores;
    for (int32_t column = attended.begin; column < attended.end; ++column) {
      scores.push_back(Score(*head, row, column));
      maximum = std::max(maximum, scores.back());
    }
    if (head->sink) {
      scores.push_back(static_cast<double>(*head->sink));
      maximum = std::max(maximum, scores.back());
    }
    double sum = 0;
    for (const double score : scores) sum += std::exp(score - maximum);
    head->lse[static_cast<size_t>(row)] = static_cast<float>(maximum + std::log(sum));
  }
}

// Of mean 0 and variance 1: the sum of four uniform numbers. A thousand heads of half a million numbers each are drawn,
// and a logarithm for every other one would take most of the test.
float NearlyNormal(uint64_t bits) {
  int32_t sum = 0;
  for (int32_t shift = 0; shift < 64; shift += 16) sum += static_cast<int32_t>(bits >> shift & 0xFFFF);
  return static_cast<float>(sum - 2 * 0xFFFF) * (std::numbers::sqrt3_v<float> / 0x10000);
}

// SplitMix64. Of the heads that are made by the thousand, half a billion numbers of the Mersenne twister would be a
// third of the time.
class FastBits {
 public:
  using result_type = uint64_t;
  explicit FastBits(uint64_t seed) : state_(seed) {}
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()() {
    uint64_t bits = state_ += 0x9E3779B97F4A7C15u;
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
    return bits ^ bits >> 31;
  }

 private:
  uint64_t state_;
};

std::shared_ptr<HeadTensors> EmptyHead(const RandomHeadShape& shape) {
  auto head = std::make_shared<HeadTensors>();
  head->id = {3, 5};
  head->kv_head = 2;
  head->head_dim = shape.head_dim;
  head->num_tokens = shape.num_tokens;
  head->scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  head->soft_cap = shape.soft_cap;
  head->window = shape.window;
  for (int64_t position = shape.first_row; position < shape.num_tokens; position += shape.row_step) {
    head->row_positions.push_back(static_cast<int32_t>(position));
  }
  head->num_rows = static_cast<int64_t>(head->row_positions.size());
  head->q.resize(static_cast<size_t>(head->num_rows * shape.head_dim));
  head->k.resize(static_cast<size_t>(shape.num_tokens * shape.head_dim));
  if (shape.v_head_dim > 0) head->v_head_dim = shape.v_head_dim;
  head->v.resize(static_cast<size_t>(shape.num_tokens * head->ValueDim()));
  // Every id comes back after 37 tokens.
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < shape.num_tokens; ++i) ids.push_back(static_cast<int32_t>(i % 37));
  head->previous_same = std::make_shared<const std::vector<int32_t>>(PreviousSame(ids));
  return head;
}

}  // namespace

HeadTensorsPtr RandomHead(const RandomHeadShape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const std::shared_ptr<HeadTensors> head = EmptyHead(shape);
  for (float& value : head->q) value = shape.sharpness * normal(random);
  for (float& value : head->k) value = normal(random);
  for (float& value : head->v) value = normal(random);
  if (shape.sinks) head->sink = 2 + 2 * normal(random);
  head->q_pre_rope.assign(head->q.rbegin(), head->q.rend());
  FillLse(head.get());
  return head;
}

RandomLayer MakeRandomLayer(const RandomHeadShape& shape, int32_t num_kv_heads, int32_t group_size, uint32_t seed,
                            bool bf16) {
  struct Tensors {
    std::vector<float> q, k, v, lse, sinks;
  };
  RandomLayer layer;
  auto tensors = std::make_shared<Tensors>();
  const auto append = [](const std::vector<float>& values, std::vector<float>* all) {
    all->insert(all->end(), values.begin(), values.end());
  };
  for (int32_t i = 0; i < num_kv_heads * group_size; ++i) {
    auto head = std::make_shared<HeadTensors>(*RandomHead(shape, seed + static_cast<uint32_t>(i)));
    head->id = {3, i};
    head->kv_head = i / group_size;
    for (std::vector<float>* values : {&head->q, &head->k, &head->v}) {
      for (float& value : *values) {
        if (bf16) value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xFFFF0000u);
      }
    }
    if (i % group_size != 0) {
      head->k = layer.heads.back()->k;
      head->v = layer.heads.back()->v;
    }
    FillLse(head.get());
    append(head->q, &tensors->q);
    append(head->lse, &tensors->lse);
    if (head->sink) tensors->sinks.push_back(*head->sink);
    if (i % group_size == 0) {
      append(head->k, &tensors->k);
      append(head->v, &tensors->v);
    }
    layer.heads.push_back(std::move(head));
  }
  auto measured = std::make_shared<MeasuredHeads>();
  static_cast<HeadFrame&>(*measured) = *layer.heads.front();
  measured->layer = 3;
  measured->num_qo_heads = measured->heads_of_layer = num_kv_heads * group_size;
  measured->num_kv_heads = num_kv_heads;
  measured->q = tensors->q;
  measured->k = tensors->k;
  measured->v = tensors->v;
  measured->lse = tensors->lse;
  measured->sinks = tensors->sinks;
  measured->owner = std::move(tensors);
  layer.measured = std::move(measured);
  return layer;
}

namespace {

// Every key is a random code; a query is the sum of the codes that it is to find, so its scores are high there and near
// zero elsewhere.
template <typename Bits>
HeadTensorsPtr PlantedBy(Bits random, Plant plant, int64_t num_tokens, float noise) {
  const auto normal = [](Bits& bits) { return NearlyNormal(bits()); };
  RandomHeadShape shape;
  shape.num_tokens = num_tokens;
  shape.head_dim = 128;
  const std::shared_ptr<HeadTensors> head = EmptyHead(shape);
  for (float& value : head->k) value = normal(random);
  for (float& value : head->v) value = normal(random);
  const auto pick = [&](int64_t end) {
    return std::uniform_int_distribution<int64_t>(0, std::max<int64_t>(0, end - 1))(random);
  };
  constexpr int64_t kTopicTokens = 64;
  if (plant == Plant::kBlock) {
    // Keys of one topic, 64 tokens long, share most of their code.
    for (int64_t column = 0; column < num_tokens; ++column) {
      for (int32_t i = 0; i < 128; ++i) {
        float& own = head->k[static_cast<size_t>(column * 128 + i)];
        own = 0.2f * own + head->k[static_cast<size_t>(column / kTopicTokens * kTopicTokens * 128 + i)];
      }
    }
  }
  const float noise_of_component = noise / std::sqrt(128.0f) / head->scale;
  for (int64_t row = 0; row < num_tokens; ++row) {
    if (noise > 0) {
      for (int32_t i = 0; i < 128; ++i)
        head->q[static_cast<size_t>(row * 128 + i)] = noise_of_component * normal(random);
    }
    const auto add = [&](int64_t column, float weight) {
      if (column < 0 || column > row) return;
      for (int32_t i = 0; i < 128; ++i) {
        head->q[static_cast<size_t>(row * 128 + i)] += weight * head->k[static_cast<size_t>(column * 128 + i)];
      }
    };
    switch (plant) {
      case Plant::kSinkLocal: {
        // Of the same score, whatever the codes' lengths: one that is a tenth longer would have most of the mass.
        const auto add_evenly = [&](int64_t column) {
          float squares = 0;
          for (int32_t i = 0; i < 128; ++i) {
            const float code = head->k[static_cast<size_t>(column * 128 + i)];
            squares += code * code;
          }
          add(column, 128 / squares);
        };
        add_evenly(0);
        add_evenly(std::max<int64_t>(0, row - pick(16)));
        break;
      }
      case Plant::kSink:
        add(0, 1.0f);
        break;
      case Plant::kLocal:
        add(row - pick(16), 1.0f);
        break;
      case Plant::kVertical:
        for (const int64_t column : {200, 411, 733}) add(column, 1.0f);
        break;
      case Plant::kSlash:
        add(row - 300, 1.0f);
        break;
      case Plant::kBlock:
        add((row / kTopicTokens * 7 % std::max<int64_t>(1, row / kTopicTokens)) * kTopicTokens, 0.9f);
        break;
      case Plant::kDiffuse:
        break;  // q = 0: all scores are equal
      case Plant::kRetrieval:
        if (pick(12) == 0) {
          add(pick(row - 200), 1.1f);
        } else {
          add(0, 1.0f);
        }
        break;
    }
  }
  if (noise > 0) {  // made by the thousand: by the kernel, which is exact enough for a class
    head->lse.resize(static_cast<size_t>(num_tokens));
    if (!kernels::RowLse(head->Problem(), 0, {}, head->lse.data()).ok()) throw std::runtime_error("no lse");
  } else {
    FillLse(head.get());
  }
  return head;
}

}  // namespace

HeadTensorsPtr PlantedHead(Plant plant, int64_t num_tokens, uint32_t seed, float noise) {
  return noise > 0 ? PlantedBy(FastBits(seed), plant, num_tokens, noise)
                   : PlantedBy(std::mt19937_64(seed), plant, num_tokens, noise);
}

std::vector<double> AllProbabilities(const HeadTensors& head) {
  std::vector<double> p;
  for (int64_t row = 0; row < head.num_rows; ++row) {
    for (int64_t column = 0; column < head.num_tokens; ++column) p.push_back(Probability(head, row, column));
  }
  return p;
}

kernels::SparseIndex RandomIndex(const HeadTensors& head, int32_t tile_rows, kernels::ElementRule rule, uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int64_t end) { return std::uniform_int_distribution<int64_t>(0, end - 1)(random); };
  kernels::SparseIndexBuilder::Shape shape;
  shape.seq_q = static_cast<int32_t>(head.num_rows);
  shape.seq_k = static_cast<int32_t>(head.num_tokens);
  shape.first_position = head.row_positions.front();
  shape.tile_rows = tile_rows;
  shape.rule = rule;
  kernels::SparseIndexBuilder builder(shape);
  for (int64_t row = 0; row < head.num_rows; row += tile_rows) {
    const int64_t runs = below(5);
    for (int64_t i = 0; i < runs; ++i) {
      const int64_t begin = below(head.num_tokens);
      const uint32_t half[] = {0, 0, kernels::kRunUpperHalf, kernels::kRunLowerHalf};
      builder.AddRange(begin, begin + 1 + below(head.num_tokens / 2), half[below(4)]);
    }
    const int64_t columns = below(9);
    for (int64_t i = 0; i < columns; ++i) builder.AddColumn(below(head.num_tokens));
    builder.FinishList();
  }
  return builder.Build();
}

}  // namespace headscope::analysis::testing
