// Random attention problems that own their tensors, in any storage type and with gaps between rows, heads and
// sequences.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/attention_problem.h"

namespace headscope::kernels::testing {

struct ProblemShape {
  int32_t batch = 1;
  int32_t num_qo_heads = 1;
  int32_t num_kv_heads = 1;
  int32_t head_dim = 16;
  int32_t seq_q = 1;
  int32_t seq_k = 1;
  int32_t first_position = 0;
  DType dtype = DType::kFloat32;
};

// A tensor [batch, heads, rows, head_dim]; values are kept as floats that the storage type holds exactly.
class OwnedTensor {
 public:
  OwnedTensor(int32_t batch, int32_t heads, int32_t rows, int32_t head_dim, DType dtype)
      : batch_(batch), heads_(heads), rows_(rows), head_dim_(head_dim), dtype_(dtype) {
    row_stride_ = head_dim + 8;
    head_stride_ = row_stride_ * rows + 16;
    batch_stride_ = head_stride_ * heads + 8;
    bytes_.resize(static_cast<size_t>(batch_stride_ * batch * SizeOf(dtype)));
  }

  void Set(int32_t sequence, int32_t head, int32_t row, int32_t d, float value) {
    const size_t at = static_cast<size_t>(Offset(sequence, head, row, d));
    if (dtype_ == DType::kFloat32) {
      std::memcpy(bytes_.data() + 4 * at, &value, 4);
      return;
    }
    // Truncation is enough: any value of the type serves.
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    uint16_t half = static_cast<uint16_t>(bits >> 16);
    if (dtype_ == DType::kFloat16) {
      const int32_t exponent = static_cast<int32_t>((bits >> 23) & 0xffu) - 127;
      const uint32_t sign = (bits >> 16) & 0x8000u;
      half = static_cast<uint16_t>(
          exponent < -14 ? sign : sign | static_cast<uint32_t>(exponent + 15) << 10 | ((bits >> 13) & 0x3ffu));
    }
    std::memcpy(bytes_.data() + 2 * at, &half, 2);
  }

  float Get(int32_t sequence, int32_t head, int32_t row, int32_t d) const {
    const size_t at = static_cast<size_t>(Offset(sequence, head, row, d));
    if (dtype_ == DType::kFloat32) {
      float value = 0;
      std::memcpy(&value, bytes_.data() + 4 * at, 4);
      return value;
    }
    uint16_t half = 0;
    std::memcpy(&half, bytes_.data() + 2 * at, 2);
    if (dtype_ == DType::kBFloat16) return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
    if ((half & 0x7c00u) == 0) return std::bit_cast<float>(sign);  // Set makes no subnormals
    return std::bit_cast<float>(sign | ((((half >> 10) & 0x1fu) + 112u) << 23) | (half & 0x3ffu) << 13);
  }

  void FillNormal(float deviation, std::mt19937* random) {
    std::normal_distribution<float> normal(0.0f, deviation);
    for (int32_t b = 0; b < batch_; ++b) {
      for (int32_t h = 0; h < heads_; ++h) {
        for (int32_t r = 0; r < rows_; ++r) {
          for (int32_t d = 0; d < head_dim_; ++d) Set(b, h, r, d, normal(*random));
        }
      }
    }
  }

  // Contiguous fp32 copy, for a program that reads files.
  std::vector<float> Values() const {
    std::vector<float> values;
    for (int32_t b = 0; b < batch_; ++b) {
      for (int32_t h = 0; h < heads_; ++h) {
        for (int32_t r = 0; r < rows_; ++r) {
          for (int32_t d = 0; d < head_dim_; ++d) values.push_back(Get(b, h, r, d));
        }
      }
    }
    return values;
  }

  StridedTensor<const void> View() const { return {bytes_.data(), batch_stride_, head_stride_, row_stride_}; }

 private:
  int64_t Offset(int32_t sequence, int32_t head, int32_t row, int32_t d) const {
    return sequence * batch_stride_ + head * head_stride_ + row * row_stride_ + d;
  }

  int32_t batch_, heads_, rows_, head_dim_;
  DType dtype_;
  int64_t row_stride_ = 0, head_stride_ = 0, batch_stride_ = 0;
  std::vector<unsigned char> bytes_;
};

struct RandomProblem {
  RandomProblem(const ProblemShape& s, std::mt19937* random, float deviation = 1.5f)
      : shape(s),
        q(s.batch, s.num_qo_heads, s.seq_q, s.head_dim, s.dtype),
        k(s.batch, s.num_kv_heads, s.seq_k, s.head_dim, s.dtype),
        v(s.batch, s.num_kv_heads, s.seq_k, s.head_dim, s.dtype) {
    q.FillNormal(deviation, random);
    k.FillNormal(deviation, random);
    v.FillNormal(1.0f, random);
  }

  AttentionProblem View() const {
    AttentionProblem problem;
    problem.batch = shape.batch;
    problem.num_qo_heads = shape.num_qo_heads;
    problem.num_kv_heads = shape.num_kv_heads;
    problem.head_dim = shape.head_dim;
    problem.seq_q = shape.seq_q;
    problem.seq_k = shape.seq_k;
    problem.first_position = shape.first_position;
    problem.dtype = shape.dtype;
    problem.q = q.View();
    problem.k = k.View();
    problem.v = v.View();
    problem.scale = scale;
    problem.soft_cap = soft_cap;
    return problem;
  }

  ProblemShape shape;
  float scale = 0.0f;
  float soft_cap = 0.0f;
  OwnedTensor q;
  OwnedTensor k;
  OwnedTensor v;
};

}  // namespace headscope::kernels::testing
