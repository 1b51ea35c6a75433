// SPDX-License-Identifier: Apache-2.0
// Random attention problems that own their tensors, in any storage type and with gaps between rows, heads and
// sequences.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "float_codes.h"
#include "kernels/attention_problem.h"
#include "problem_shape.h"

namespace headscope::kernels::testing {

using test::ProblemShape;

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
    const uint16_t half = test::ToCode(value, dtype_);
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
    return test::FromCode(half, dtype_);
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
        scale(s.scale),
        soft_cap(s.soft_cap),
        q(s.batch, s.num_qo_heads, s.seq_q, s.head_dim, s.dtype),
        k(s.batch, s.num_kv_heads, s.seq_k, s.head_dim, s.dtype),
        v(s.batch, s.num_kv_heads, s.seq_k, s.head_dim, s.dtype) {
    q.FillNormal(deviation, random);
    k.FillNormal(deviation, random);
    v.FillNormal(1.0f, random);
  }

  AttentionProblem View() const {
    AttentionProblem problem = test::ProblemOf(shape);
    problem.q = q.View();
    problem.k = k.View();
    problem.v = v.View();
    problem.scale = scale;
    problem.soft_cap = soft_cap;
    return problem;
  }

  ProblemShape shape;
  float scale;  // of View(), where it may differ from the shape's
  float soft_cap;
  OwnedTensor q;
  OwnedTensor k;
  OwnedTensor v;
};

}  // namespace headscope::kernels::testing
