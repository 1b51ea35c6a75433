// SPDX-License-Identifier: Apache-2.0
// Q, K and V from a seed: the tensors of `headscope bench`, bit for bit the same on every machine and in NumPy
// (docs/bench.md has the ten lines).
//
// Method. Element i of a contiguous tensor is a function of (seed, tensor, i): the four 16-bit fields of one SplitMix64
// output are added, which is close to normal (unit variance, excess kurtosis -0.3, at most 3.46 deviations), all in
// integers, and one multiplication makes a float of it. So there is one rounding, and no library's logarithm or cosine.
// On top, every KV head has "marked" keys: the first four tokens, and every eighth token of one in 32 blocks of 64.
// Each marked key, and each query of the heads that read it, is shifted along one direction of the head, so that their
// scaled product is about 9 above the rest and they hold most of a row's mass, in few columns and so on few diagonals,
// as the sinks and verticals of real heads do. Without them every key would weigh the same, and a method that keeps a
// share of the mass would have to keep nearly everything.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/attention_problem.h"
#include "kernels/run_options.h"
#include "kernels/status.h"

namespace headscope::kernels {

// Named in files and reports; changes when an element would.
inline constexpr char kSeededRecipe[] = "headscope-seeded-1";

// What the scores look like, beside the recipe: the same random numbers, without its marked keys. All but kLocal are
// the same bits everywhere; kLocal takes cosines from the machine's library.
enum class SeededData : uint8_t {
  kSeeded,  // the recipe
  kRising,  // scaled scores rise by `strength` nats in 128 keys, towards the newest, along a direction of the KV head
  kPeaky,   // scaled scores have a standard deviation of `strength` nats
  // Queries and keys hold a vector that turns with the position, as rotary embeddings turn it: a query's scaled score
  // at its own key is `strength` nats on average, and falls with the distance.
  kLocal,
};

struct SeededProblem {
  uint64_t seed = 1;
  int32_t batch = 1;
  int32_t num_qo_heads = 0;
  int32_t num_kv_heads = 0;  // divides num_qo_heads
  int32_t head_dim = 0;
  int32_t seq_q = 0;  // seq_k for a prompt, 1 for a decode step
  int32_t seq_k = 0;
  SeededData data = SeededData::kSeeded;
  float strength = 0;  // of the data; kSeeded has none
};

// "headscope-seeded-1", or the data's name and strength: "headscope-peaky-1:9".
std::string RecipeOf(const SeededProblem& problem);

enum class SeededTensor : uint8_t { kQuery = 0, kKey = 1, kValue = 2 };

// Elements of the tensor: kQuery [batch, num_qo_heads, seq_q, head_dim]; kKey and kValue [batch, num_kv_heads, seq_k,
// head_dim].
int64_t ElementCount(const SeededProblem& problem, SeededTensor tensor);

// Writes the contiguous tensor in `dtype` (bf16 and fp16: fp32 rounded to nearest, ties to even) to host memory, on
// all threads. Errors: kInvalidArgument for a field that is not positive or heads that do not divide; kCancelled.
Status FillSeeded(const SeededProblem& problem, SeededTensor tensor, DType dtype, const RunOptions& options, void* out);

}  // namespace headscope::kernels
