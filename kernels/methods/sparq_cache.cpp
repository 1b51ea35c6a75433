// SPDX-License-Identifier: Apache-2.0
#include "sparq_cache.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "index/checks.h"
#include "internal/element.h"
#include "internal/parallel_for.h"
#include "kernels/cpu_sparq.h"
#include "kernels/sparq_setup.h"

namespace headscope::kernels {
namespace {

constexpr int64_t kLineBytes = 64;

// Whole cache lines, an odd number of them: components that lie a power of two apart would share a few sets of the
// caches.
int64_t StrideOf(int64_t seq_k, int64_t element) {
  const int64_t lines = (seq_k * element + kLineBytes - 1) / kLineBytes;
  return (lines | 1) * kLineBytes / element;
}

constexpr int64_t kTile = 64;  // tokens whose rows stay in the cache while their components are written
constexpr int64_t kTilesAtOnce = 64;

// Tokens [first, end) of one KV head.
template <typename Element>
void TransposeTokens(const AttentionProblem& problem, int64_t list, int64_t first, int64_t end,
                     const TransposedKeys& keys) {
  const int64_t sequence = list / problem.num_kv_heads, kv_head = list % problem.num_kv_heads;
  const Element* const from =
      static_cast<const Element*>(problem.k.data) + sequence * problem.k.batch_stride + kv_head * problem.k.head_stride;
  Element* const to = static_cast<Element*>(keys.data) + sequence * keys.batch_stride + kv_head * keys.head_stride;
  for (; first < end; first += kTile) {
    const int64_t tile_end = std::min(first + kTile, end);
    for (int64_t d = 0; d < problem.head_dim; ++d) {
      for (int64_t token = first; token < tile_end; ++token)
        to[d * keys.component_stride + token] = from[token * problem.k.row_stride + d];
    }
  }
}

}  // namespace

Status TransposeKeysCpu(const AttentionProblem& problem, const RunOptions& options, std::vector<std::byte>* memory,
                        TransposedKeys* keys, int64_t capacity) {
  if (Status status = internal::CheckProblem(problem, /*reads_v=*/false); !status.ok()) return status;
  const int64_t element = SizeOf(problem.dtype);
  const int64_t num_lists = int64_t{problem.batch} * problem.num_kv_heads;
  TransposedKeys made;
  made.component_stride = StrideOf(std::max<int64_t>(problem.seq_k, capacity), element);
  made.head_stride = problem.head_dim * made.component_stride;
  made.batch_stride = problem.num_kv_heads * made.head_stride;
  std::vector<std::byte> bytes;
  try {
    bytes.resize(static_cast<size_t>(num_lists * made.head_stride * element + kLineBytes));
  } catch (const std::bad_alloc&) {
    return {StatusCode::kOutOfMemory,
            "not enough memory for a second copy of K of " + std::to_string(problem.seq_k) + " tokens"};
  }
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  made.data = bytes.data() + (kLineBytes - static_cast<int64_t>(address % kLineBytes)) % kLineBytes;
  const int64_t chunk = kTile * kTilesAtOnce;
  const int64_t chunks = (problem.seq_k + chunk - 1) / chunk;
  Status status = internal::ParallelFor(num_lists * chunks, 1, options, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t list = i / chunks, first = i % chunks * chunk,
                    behind = std::min<int64_t>(first + chunk, problem.seq_k);
      if (element == 4) {
        TransposeTokens<float>(problem, list, first, behind, made);
      } else {
        TransposeTokens<uint16_t>(problem, list, first, behind, made);
      }
    }
  });
  if (!status.ok()) return status;
  *memory = std::move(bytes);
  *keys = made;
  return {};
}

void internal::MeanValueOfHead(const AttentionProblem& problem, int32_t sequence, int32_t kv_head, float* mean) {
  constexpr int32_t kRowsPerPartialSum = 256;  // fp32 inside, double across: the error does not grow with the length
  const int64_t offset = sequence * problem.v.batch_stride + kv_head * problem.v.head_stride;
  std::vector<double> sum(static_cast<size_t>(problem.ValueDim()), 0.0);
  std::vector<float> partial(sum.size()), row(sum.size());
  for (int32_t begin = 0; begin < problem.seq_k; begin += kRowsPerPartialSum) {
    std::fill(partial.begin(), partial.end(), 0.0f);
    const int32_t end = std::min(begin + kRowsPerPartialSum, problem.seq_k);
    for (int32_t token = begin; token < end; ++token) {
      LoadRow(problem.v.data, problem.dtype, offset + token * problem.v.row_stride, problem.ValueDim(), row.data());
      for (size_t d = 0; d < partial.size(); ++d) partial[d] += row[d];
    }
    for (size_t d = 0; d < sum.size(); ++d) sum[d] += static_cast<double>(partial[d]);
  }
  for (size_t d = 0; d < sum.size(); ++d) mean[d] = static_cast<float>(sum[d] / problem.seq_k);
}

Status MeanValueCpu(const AttentionProblem& problem, const RunOptions& options, float* mean) {
  if (Status status = internal::CheckProblem(problem, /*reads_v=*/true); !status.ok()) return status;
  return internal::ParallelFor(int64_t{problem.batch} * problem.num_kv_heads, 1, options,
                               [&](int64_t begin, int64_t end, int32_t) {
                                 for (int64_t list = begin; list < end; ++list) {
                                   internal::MeanValueOfHead(problem, static_cast<int32_t>(list / problem.num_kv_heads),
                                                             static_cast<int32_t>(list % problem.num_kv_heads),
                                                             mean + list * problem.ValueDim());
                                 }
                               });
}

Status AppendTokenCpu(const AttentionProblem& problem, const TransposedKeys& keys, float* mean) {
  if (Status status = internal::CheckProblem(problem, /*reads_v=*/mean != nullptr); !status.ok()) return status;
  if (keys.data == nullptr && mean == nullptr)
    return {StatusCode::kInvalidArgument, "sparq: neither keys.data nor mean is given; give one or both"};
  if (keys.data != nullptr && keys.component_stride < problem.seq_k) {
    return {StatusCode::kInvalidArgument,
            "sparq: keys.component_stride is " + std::to_string(keys.component_stride) + ", must be seq_k or more"};
  }
  const int64_t element = SizeOf(problem.dtype);
  const int64_t token = problem.seq_k - 1;
  for (int64_t list = 0; list < int64_t{problem.batch} * problem.num_kv_heads; ++list) {
    const int64_t sequence = list / problem.num_kv_heads, kv_head = list % problem.num_kv_heads;
    if (keys.data != nullptr) {
      const char* const from =
          static_cast<const char*>(problem.k.data) +
          (sequence * problem.k.batch_stride + kv_head * problem.k.head_stride + token * problem.k.row_stride) *
              element;
      char* const to =
          static_cast<char*>(keys.data) + (sequence * keys.batch_stride + kv_head * keys.head_stride + token) * element;
      for (int64_t d = 0; d < problem.head_dim; ++d) {
        std::memcpy(to + d * keys.component_stride * element, from + d * element, static_cast<size_t>(element));
      }
    }
    if (mean == nullptr) continue;
    const int64_t value =
        sequence * problem.v.batch_stride + kv_head * problem.v.head_stride + token * problem.v.row_stride;
    for (int64_t d = 0; d < problem.ValueDim(); ++d) {
      float& of = mean[list * problem.ValueDim() + d];
      of += (internal::LoadElement(problem.v.data, problem.dtype, value + d) - of) / static_cast<float>(problem.seq_k);
    }
  }
  return {};
}

}  // namespace headscope::kernels
