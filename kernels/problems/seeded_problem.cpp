// SPDX-License-Identifier: Apache-2.0
#include "kernels/seeded_problem.h"

#include <cmath>
#include <string>

#include "internal/parallel_for.h"
#include "kernels/narrow_floats.h"
#include "problems/counter_random.h"

namespace headscope::kernels {
namespace {

using problems::RandomAt;

// Streams of one seed, by their number: the three tensors have that of SeededTensor.
constexpr uint64_t kDirectionStream = 3;
constexpr uint64_t kMarkStream = 4;

constexpr int32_t kMarkedPrefix = 4;  // tokens at the start that are always marked
constexpr int32_t kMarkBlock = 64;    // tokens
constexpr int kMarkShift = 59;        // a block has marks when the top five bits are 0: one in 32
constexpr int32_t kMarkStride = 8;    // of the marks inside such a block
constexpr double kRisingQuery = 4.0;  // what a query has of its KV head's direction, in deviations
constexpr double kRisingKeys = 128.0;
constexpr double kRotaryBase = 10000.0;
constexpr double kMarkedScore = 9.0;  // what a marked key's scaled score has above the others', in nats

// A field is uniform on [0, 65535]; four of them, doubled and centred, are even integers of this deviation.
double Deviation() {
  return 2.0 * std::sqrt(4.0 * (65536.0 * 65536.0 - 1.0) / 12.0);
}

int32_t Centred(uint64_t bits) {
  const auto field = [bits](int shift) { return static_cast<int32_t>((bits >> shift) & 0xffffu); };
  return 2 * (field(0) + field(16) + field(32) + field(48)) - 4 * 65535;
}

void Store(float value, DType dtype, int64_t i, void* out) {
  switch (dtype) {
    case DType::kFloat32:
      static_cast<float*>(out)[i] = value;
      return;
    case DType::kBFloat16:
      static_cast<uint16_t*>(out)[i] = RoundToBFloat16(value);
      return;
    case DType::kFloat16:
      static_cast<uint16_t*>(out)[i] = RoundToFloat16(value);
      return;
  }
}

Status Check(const SeededProblem& problem) {
  const auto refuse = [](const char* field, int64_t value, const std::string& allowed) {
    return Status{StatusCode::kInvalidArgument,
                  std::string("seeded problem: ") + field + " is " + std::to_string(value) + ", must be " + allowed};
  };
  if (problem.batch < 1) return refuse("batch", problem.batch, "1 or more");
  if (problem.num_kv_heads < 1) return refuse("num_kv_heads", problem.num_kv_heads, "1 or more");
  if (problem.num_qo_heads < 1 || problem.num_qo_heads % problem.num_kv_heads != 0) {
    return refuse("num_qo_heads", problem.num_qo_heads, "a multiple of " + std::to_string(problem.num_kv_heads));
  }
  if (problem.head_dim < 1) return refuse("head_dim", problem.head_dim, "1 or more");
  if (problem.seq_k < 1) return refuse("seq_k", problem.seq_k, "1 or more");
  if (problem.seq_q < 1 || problem.seq_q > problem.seq_k) return refuse("seq_q", problem.seq_q, "1 to seq_k");
  if (problem.data != SeededData::kSeeded && !(problem.strength > 0 && problem.strength <= 1000)) {
    return {StatusCode::kInvalidArgument, "seeded problem: strength is " + std::to_string(problem.strength) +
                                              ", must be more than 0 and at most 1000"};
  }
  return {};
}

// What every row of one tensor is made with.
class Rows {
 public:
  Rows(const SeededProblem& problem, SeededTensor tensor)
      : problem_(problem),
        tensor_(tensor),
        heads_(tensor == SeededTensor::kQuery ? problem.num_qo_heads : problem.num_kv_heads),
        length_(tensor == SeededTensor::kQuery ? problem.seq_q : problem.seq_k),
        key_(RandomAt(problem.seed, static_cast<uint64_t>(tensor))),
        direction_key_(RandomAt(problem.seed, kDirectionStream)),
        mark_key_(RandomAt(problem.seed, kMarkStream)),
        shift_(static_cast<int32_t>(
            std::lround(std::sqrt(kMarkedScore / std::sqrt(static_cast<double>(problem.head_dim))) * Deviation()))),
        step_(static_cast<float>(1.0 / Deviation())) {}

  int64_t count() const { return int64_t{problem_.batch} * heads_ * length_; }

  // Row `row` of the tensor seen as [batch * heads * length, head_dim].
  void Fill(int64_t row, DType dtype, void* out) const {
    const int64_t token = row % length_;
    const int64_t head = row / length_ % heads_;
    const int64_t sequence = row / length_ / heads_;
    const int64_t group = tensor_ == SeededTensor::kQuery ? problem_.num_qo_heads / problem_.num_kv_heads : 1;
    const int64_t kv_head = sequence * problem_.num_kv_heads + head / group;
    if (problem_.data != SeededData::kSeeded) return FillOther(row, token, kv_head, dtype, out);
    const int32_t shift = Shifted(kv_head, token) ? shift_ : 0;
    for (int64_t d = 0; d < problem_.head_dim; ++d) {
      const int64_t i = row * problem_.head_dim + d;
      int32_t value = Centred(RandomAt(key_, static_cast<uint64_t>(i)));
      if (shift != 0) value += Up(kv_head, d) ? shift : -shift;
      Store(static_cast<float>(value) * step_, dtype, i, out);
    }
  }

 private:
  void FillOther(int64_t row, int64_t token, int64_t kv_head, DType dtype, void* out) const {
    const bool query = tensor_ == SeededTensor::kQuery;
    const int64_t position = query ? problem_.seq_k - problem_.seq_q + token : token;
    const double root = std::sqrt(static_cast<double>(problem_.head_dim)), strength = double{problem_.strength};
    const double along =
        query ? kRisingQuery : strength * static_cast<double>(position) / (kRisingKeys * kRisingQuery * root);
    const double turning = std::sqrt(2 * strength / root);
    for (int64_t d = 0; d < problem_.head_dim; ++d) {
      const int64_t i = row * problem_.head_dim + d;
      double value = double{static_cast<float>(Centred(RandomAt(key_, static_cast<uint64_t>(i)))) * step_};
      if (tensor_ != SeededTensor::kValue) {
        switch (problem_.data) {
          case SeededData::kSeeded:
            break;
          case SeededData::kRising:
            value += Up(kv_head, d) ? along : -along;
            break;
          case SeededData::kPeaky:
            if (query) value *= strength;
            break;
          case SeededData::kLocal: {
            const int64_t even = d - d % 2;
            const auto pair = static_cast<double>(even);
            const double angle =
                static_cast<double>(position) * std::pow(kRotaryBase, -pair / static_cast<double>(problem_.head_dim));
            value += turning * (d % 2 == 0 ? std::cos(angle) : std::sin(angle));
            break;
          }
        }
      }
      Store(static_cast<float>(value), dtype, i, out);
    }
  }
  bool Shifted(int64_t kv_head, int64_t token) const {
    if (tensor_ != SeededTensor::kKey) return tensor_ == SeededTensor::kQuery;
    if (token < kMarkedPrefix) return true;
    if (token % kMarkStride != 0) return false;
    const int64_t num_blocks = (int64_t{problem_.seq_k} + kMarkBlock - 1) / kMarkBlock;
    return RandomAt(mark_key_, static_cast<uint64_t>(kv_head * num_blocks + token / kMarkBlock)) >> kMarkShift == 0;
  }
  // The sign of component d of the head's direction.
  bool Up(int64_t kv_head, int64_t d) const {
    return RandomAt(direction_key_, static_cast<uint64_t>(kv_head * problem_.head_dim + d)) >> 63 == 0;
  }

  const SeededProblem problem_;
  const SeededTensor tensor_;
  const int64_t heads_, length_;
  const uint64_t key_, direction_key_, mark_key_;
  const int32_t shift_;
  const float step_;
};

}  // namespace

std::string RecipeOf(const SeededProblem& problem) {
  if (problem.data == SeededData::kSeeded) return kSeededRecipe;
  const char* const name = problem.data == SeededData::kRising  ? "rising"
                           : problem.data == SeededData::kPeaky ? "peaky"
                                                                : "local";
  std::string strength = std::to_string(problem.strength);
  strength.erase(strength.find_last_not_of('0') + 1);
  if (strength.back() == '.') strength.pop_back();
  return std::string("headscope-") + name + "-1:" + strength;
}

int64_t ElementCount(const SeededProblem& problem, SeededTensor tensor) {
  const bool query = tensor == SeededTensor::kQuery;
  return int64_t{problem.batch} * (query ? problem.num_qo_heads : problem.num_kv_heads) *
         (query ? problem.seq_q : problem.seq_k) * problem.head_dim;
}

Status FillSeeded(const SeededProblem& problem, SeededTensor tensor, DType dtype, const RunOptions& options,
                  void* out) {
  if (Status status = Check(problem); !status.ok()) return status;
  if (out == nullptr) return {StatusCode::kInvalidArgument, "seeded problem: out is null"};
  const Rows rows(problem, tensor);
  constexpr int64_t kRowsPerChunk = 512;
  return internal::ParallelFor(rows.count(), kRowsPerChunk, options, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t row = begin; row < end; ++row) rows.Fill(row, dtype, out);
  });
}

}  // namespace headscope::kernels
