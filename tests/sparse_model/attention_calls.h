// SPDX-License-Identifier: Apache-2.0
// A layer of a running model without the model: random queries, keys and values of a sequence, and the calls that its
// passes make.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/attention_backend.h"
#include "model/attention_layer.h"
#include "sparse_model/method_attention.h"

namespace headscope::sparse_model {

inline model::AttentionLayer LayerOf(int32_t head_dim) {
  model::AttentionLayer layer;
  layer.num_qo_heads = 4;
  layer.num_kv_heads = 2;
  layer.head_dim = layer.v_head_dim = head_dim;
  layer.scale = 1 / std::sqrt(static_cast<double>(head_dim));
  return layer;
}

// Numbers that bf16 holds, as bf16 or fp32.
struct SequenceData {
  SequenceData(const model::AttentionLayer& facts, int64_t tokens, bool bf16, unsigned seed)
      : layer(facts), num_tokens(tokens), is_bf16(bf16) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, 1.5f);
    const auto fill = [&](std::vector<std::byte>* to, int64_t count) {
      to->resize(static_cast<size_t>(count * ElementBytes()));
      for (int64_t i = 0; i < count; ++i) {
        const float value = normal(random);
        uint32_t bits = 0;
        std::memcpy(&bits, &value, 4);
        bits &= 0xffff0000U;
        std::memcpy(to->data() + i * ElementBytes(), reinterpret_cast<const std::byte*>(&bits) + (bf16 ? 2 : 0),
                    static_cast<size_t>(ElementBytes()));
      }
    };
    fill(&q, layer.num_qo_heads * num_tokens * layer.head_dim);
    fill(&k, layer.num_kv_heads * num_tokens * layer.head_dim);
    fill(&v, layer.num_kv_heads * num_tokens * layer.v_head_dim);
  }

  int64_t ElementBytes() const { return is_bf16 ? 2 : 4; }

  // The pass over tokens [first, first + rows), with tensors at these places: those of the members, or copies of them.
  model::AttentionCall Call(int64_t first, int64_t rows, bool of_prompt, const void* q_at, const void* k_at,
                            const void* v_at) const {
    model::AttentionCall call;
    call.facts = &layer;
    call.type = is_bf16 ? ElementType::kBFloat16 : ElementType::kFloat32;
    call.of_prompt = of_prompt;
    call.num_rows = rows;
    call.num_tokens = first + rows;
    call.q = {static_cast<const std::byte*>(q_at) + first * layer.head_dim * ElementBytes(),
              num_tokens * layer.head_dim, layer.head_dim};
    call.k = {k_at, num_tokens * layer.head_dim, layer.head_dim};
    call.v = {v_at, num_tokens * layer.v_head_dim, layer.v_head_dim};
    return call;
  }

  const model::AttentionLayer layer;
  const int64_t num_tokens;
  const bool is_bf16;
  std::vector<std::byte> q, k, v;  // [heads, num_tokens, dim]
};

// What a pass made, o as fp32.
struct PassOutput {
  std::vector<float> o, lse;
};

inline std::vector<float> Widened(const std::vector<std::byte>& values, bool is_bf16) {
  const size_t bytes = is_bf16 ? 2 : 4;
  std::vector<float> wide(values.size() / bytes);
  for (size_t i = 0; i < wide.size(); ++i) {
    std::byte bits[4] = {};
    std::memcpy(bits + (4 - bytes), values.data() + i * bytes, bytes);
    std::memcpy(&wide[i], bits, 4);
  }
  return wide;
}

inline PassOutput AttendOnHost(MethodAttention& backend, const SequenceData& data, int64_t first, int64_t rows,
                               bool of_prompt) {
  const int64_t vectors = rows * data.layer.num_qo_heads;
  std::vector<std::byte> o(static_cast<size_t>(vectors * data.layer.v_head_dim * data.ElementBytes()));
  PassOutput output;
  output.lse.resize(static_cast<size_t>(vectors));
  model::AttentionCall call = data.Call(first, rows, of_prompt, data.q.data(), data.k.data(), data.v.data());
  call.o = o.data();
  call.lse = output.lse.data();
  backend.Attend(call);
  output.o = Widened(o, data.is_bf16);
  return output;
}

inline MethodChoice Choose(const std::string& prefill, const std::string& prefill_values, const std::string& decode,
                           const std::string& decode_values) {
  MethodChoice choice;
  choice.num_threads = 2;
  choice.prefill = kernels::FindPrefillMethod(prefill);
  choice.prefill_values = kernels::ParameterValues(choice.prefill->spec());
  if (const std::string fault = choice.prefill_values.Parse(choice.prefill->spec(), prefill_values); !fault.empty())
    throw std::invalid_argument(fault);
  choice.decode = kernels::FindDecodeMethod(decode);
  choice.decode_values = kernels::ParameterValues(choice.decode->spec());
  if (const std::string fault = choice.decode_values.Parse(choice.decode->spec(), decode_values); !fault.empty())
    throw std::invalid_argument(fault);
  return choice;
}

// NaN is as far as can be, from anything.
inline float LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  float worst = a.size() == b.size() ? 0.0f : HUGE_VALF;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const float difference = a[i] == b[i] ? 0.0f : std::fabs(a[i] - b[i]);
    worst = std::isnan(difference) ? HUGE_VALF : std::fmax(worst, difference);
  }
  return worst;
}

// The same, of numbers above 1 as a share of them: a step of bf16 grows with what it is of.
inline float LargestRelativeDifference(const std::vector<float>& a, const std::vector<float>& b) {
  float worst = a.size() == b.size() ? 0.0f : HUGE_VALF;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const float difference = a[i] == b[i] ? 0.0f : std::fabs(a[i] - b[i]) / std::fmax(1.0f, std::fabs(b[i]));
    worst = std::isnan(difference) ? HUGE_VALF : std::fmax(worst, difference);
  }
  return worst;
}

}  // namespace headscope::sparse_model
