// SPDX-License-Identifier: Apache-2.0
#include "bench/window_trace.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <system_error>
#include <vector>

#include "base/byte_text.h"
#include "base/check_status.h"
#include "base/errors.h"
#include "base/quoted_text.h"
#include "base/stop.h"
#include "data/trace_writer.h"
#include "kernels/cpu_executor.h"
#include "kernels/method.h"
#include "kernels/seeded_problem.h"
#include "kernels/sparse_index.h"

namespace headscope::app::bench {
namespace {

constexpr int32_t kRowsAtOnce = 8192;
constexpr double kShareOfScores = 0.5;  // of the time, about

struct Tensors {
  std::vector<uint16_t> q, k;  // bf16 [num_tokens, head_dim]
  std::vector<float> lse;      // [num_tokens]
};

std::vector<uint16_t> Filled(const SyntheticTraceShape& shape, kernels::SeededTensor tensor,
                             const std::stop_token& stop) {
  const kernels::SeededProblem problem{.num_qo_heads = 1,
                                       .num_kv_heads = 1,
                                       .head_dim = shape.head_dim,
                                       .seq_q = shape.num_tokens,
                                       .seq_k = shape.num_tokens};
  std::vector<uint16_t> values(static_cast<size_t>(kernels::ElementCount(problem, tensor)));
  CheckStatus(kernels::FillSeeded(problem, tensor, kernels::DType::kBFloat16, {.stop = stop}, values.data()));
  return values;
}

Tensors MakeTensors(const SyntheticTraceShape& shape, const std::stop_token& stop) {
  Tensors made;
  made.q = Filled(shape, kernels::SeededTensor::kQuery, stop);
  made.k = Filled(shape, kernels::SeededTensor::kKey, stop);
  made.lse.resize(static_cast<size_t>(shape.num_tokens));
  std::vector<float> output(made.q.size());
  kernels::AttentionProblem problem;
  problem.num_qo_heads = problem.num_kv_heads = 1;
  problem.head_dim = shape.head_dim;
  problem.seq_q = problem.seq_k = shape.num_tokens;
  problem.dtype = kernels::DType::kBFloat16;
  const auto size = static_cast<int64_t>(made.q.size());
  problem.q = {made.q.data(), size, size, shape.head_dim};
  problem.k = problem.v = {made.k.data(), size, size, shape.head_dim};
  const kernels::PrefillMethod& dense = kernels::PrefillBaseline();
  kernels::SparseIndex index;
  CheckStatus(dense.Select(problem, kernels::ParameterValues(dense.spec()), {.stop = stop}, &index));
  const kernels::AttentionOutput attended{.o = {output.data(), size, size, shape.head_dim}, .lse = made.lse.data()};
  CheckStatus(kernels::AttendCpu(problem, index.View(), attended, {.stop = stop}));
  return made;
}

data::TraceLayout LayoutOf(const SyntheticTraceShape& shape) {
  data::TraceLayout layout;
  layout.model.name = layout.model.model_type = "synthetic";
  layout.model.config_json = "{}";
  layout.model.num_layers = shape.NumLayers();
  layout.model.num_qo_heads = shape.HeadsOfLayer();
  layout.model.num_kv_heads = 1;
  layout.model.head_dim = shape.head_dim;
  layout.layers.resize(static_cast<size_t>(shape.NumLayers()));
  std::iota(layout.layers.begin(), layout.layers.end(), 0);
  for (const int32_t layer : layout.layers) {
    data::LayerFacts facts = data::UsualFacts(layout.model);
    facts.v_is_k = true;
    facts.kv_layer = layer == 0 ? -1 : 0;
    layout.facts.push_back(std::move(facts));
  }
  layout.prompt_source = SyntheticTraceName(shape);
  layout.max_tokens = shape.num_tokens;
  return layout;
}

// The same rows of every head.
template <typename T>
std::vector<T> Repeated(const std::vector<T>& one, int64_t begin, int64_t end, int32_t heads) {
  std::vector<T> all;
  all.reserve(static_cast<size_t>((end - begin) * heads));
  for (int32_t head = 0; head < heads; ++head) all.insert(all.end(), one.begin() + begin, one.begin() + end);
  return all;
}

}  // namespace

int64_t SyntheticTraceShape::Bytes() const {
  const int64_t query = int64_t{num_heads} * (2 * head_dim + 4);
  return int64_t{num_tokens} * (query + 2 * head_dim + 64);
}

SyntheticTraceShape ParseSyntheticTrace(const std::string& text) {
  SyntheticTraceShape shape;
  int end = 0;
  const bool is_read = std::sscanf(text.c_str(), "%9dx%9d%n", &shape.num_tokens, &shape.num_heads, &end) == 2 &&
                       static_cast<size_t>(end) == text.size();
  constexpr int32_t kMostTokens = 1 << 20, kMostHeads = 1 << 14;
  if (!is_read || shape.num_tokens < 1 || shape.num_tokens > kMostTokens || shape.num_heads < 1 ||
      shape.num_heads > kMostHeads)
    throw UsageError({.field = "synthetic",
                      .value = Quoted(text),
                      .problem = "must be TOKENSxHEADS, such as 131072x1024: at most " + std::to_string(kMostTokens) +
                                 " tokens and " + std::to_string(kMostHeads) + " heads"});
  if (shape.num_heads % shape.HeadsOfLayer() != 0)
    throw UsageError({.field = "synthetic",
                      .value = Quoted(text),
                      .problem = "more than " + std::to_string(shape.kMostHeadsOfLayer) +
                                 " heads must be a multiple of it, the number per layer"});
  return shape;
}

std::string SyntheticTraceName(const SyntheticTraceShape& shape) {
  return "synthetic, " + std::to_string(shape.num_tokens) + " tokens x " + std::to_string(shape.num_heads) + " heads";
}

void WriteSyntheticTrace(const std::string& path, const SyntheticTraceShape& shape,
                         const std::function<void(double share)>& progress, const std::stop_token& stop) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code unknown;
  const std::filesystem::space_info space = std::filesystem::space(folder, unknown);
  if (!unknown && space.available < static_cast<uintmax_t>(shape.Bytes()))
    throw FailedError({.file = folder.string(),
                       .problem = "has no room for the trace of " + ByteText(shape.Bytes()),
                       .remedy = "set TMPDIR to a folder that has, or choose a smaller trace"});
  progress(0);
  const Tensors tensors = MakeTensors(shape, stop);
  data::TraceWriter writer(path, LayoutOf(shape), /*overwrite=*/false, shape.num_tokens);
  for (int32_t begin = 0; begin < shape.num_tokens; begin += kRowsAtOnce) {
    const int32_t end = std::min(begin + kRowsAtOnce, shape.num_tokens), count = end - begin;
    std::vector<data::TokenRecord> tokens(static_cast<size_t>(count));
    std::vector<int32_t> positions(tokens.size());
    for (int32_t i = 0; i < count; ++i) {
      tokens[static_cast<size_t>(i)].text = " w" + std::to_string(begin + i);
      positions[static_cast<size_t>(i)] = begin + i;
    }
    writer.AppendTokens(tokens);
    writer.AppendRowPositions(positions);
    const int64_t first = int64_t{begin} * shape.head_dim, last = int64_t{end} * shape.head_dim;
    const std::vector<uint16_t> q = Repeated(tensors.q, first, last, shape.HeadsOfLayer());
    const std::vector<float> lse = Repeated(tensors.lse, begin, end, shape.HeadsOfLayer());
    for (int32_t layer = 0; layer < shape.NumLayers(); ++layer) {
      StopIfAsked(stop);
      data::LayerBlock block;
      block.layer_slot = layer;
      block.first_token = block.first_row = begin;
      block.num_tokens = block.num_rows = count;
      block.q = q.data();
      block.k = tensors.k.data() + first;
      block.lse = lse.data();
      writer.Append(block);
    }
    writer.Flush();
    progress(kShareOfScores + (1 - kShareOfScores) * end / shape.num_tokens);
  }
  writer.Finish();
}

}  // namespace headscope::app::bench
