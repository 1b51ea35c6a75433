#include "analysis/head_tensors.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "data/row_positions.h"
#include "head/head_checks.h"
#include "head/head_on_gpu.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_scores.h"

namespace headscope::analysis {
namespace {

std::string Names(const std::vector<int32_t>& numbers) {
  std::string text;
  for (const int32_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

// Decodes in pieces, so that a long head needs no second copy in the file's encoding.
template <typename Read>
std::vector<float> ReadDecoded(int64_t rows, int32_t head_dim, data::Encoding encoding, Read&& read) {
  constexpr int64_t kPiece = 4096;
  std::vector<float> values(static_cast<size_t>(rows * head_dim));
  std::vector<uint8_t> raw(static_cast<size_t>(std::min(rows, kPiece) * head_dim * data::SizeOf(encoding)));
  for (int64_t begin = 0; begin < rows; begin += kPiece) {
    const int64_t end = std::min(rows, begin + kPiece);
    read(begin, end, raw.data());
    data::DecodeToFloat(raw.data(), encoding, (end - begin) * head_dim, values.data() + begin * head_dim);
  }
  return values;
}

// A model that overflows records infinities or NaN; no statistic of such a head means anything, so it is refused by
// name.
void CheckFinite(const std::vector<float>& values, const char* tensor, HeadId id, const std::string& path) {
  // The sum of x * 0 is 0 unless some x is not finite: one pass without branches.
  float sum = 0;
  for (const float value : values) sum += value * 0.0f;
  if (std::isfinite(sum)) return;
  throw data::BadTraceError(path + ": " + tensor + " of head " + HeadName(id) +
                            " holds values that are not finite: capture again with --dtype fp32, and if they "
                            "stay, the model's weights hold such values");
}

// Consecutive rows at a time, since a problem's rows are.
void ComputeLse(HeadTensors* head, const std::string& path) {
  for (int64_t begin = 0; begin < head->num_rows;) {
    int64_t end = begin + 1;
    const int32_t* positions = head->row_positions.data();
    while (end < head->num_rows && positions[end] == positions[end - 1] + 1) ++end;
    kernels::AttentionProblem rows = head->Problem();
    rows.q.data = head->q.data() + begin * head->head_dim;
    rows.seq_q = static_cast<int32_t>(end - begin);
    rows.first_position = positions[begin];
    const kernels::Status status = kernels::RowLse(rows, head->window, {}, head->lse.data() + begin);
    if (!status.ok()) throw data::TraceError(path + ": the log-sum-exp of its part of the tokens: " + status.message());
    begin = end;
  }
}

}  // namespace

bool HeadTensors::RowsContiguous() const {
  return data::RowsContiguous(row_positions);
}

kernels::AttentionProblem HeadTensors::Problem() const {
  kernels::AttentionProblem problem;
  problem.num_qo_heads = 1;
  problem.num_kv_heads = 1;
  problem.first_qo_head = id.head;
  problem.first_kv_head = kv_head;
  problem.head_dim = head_dim;
  problem.seq_q = static_cast<int32_t>(num_rows);
  problem.seq_k = static_cast<int32_t>(num_tokens);
  problem.first_position = row_positions.empty() ? 0 : row_positions.front();
  problem.dtype = kernels::DType::kFloat32;
  kernels::SetContiguousTensors(q.data(), k.data(), v.data(), &problem);
  problem.scale = scale;
  problem.soft_cap = soft_cap;
  return problem;
}

kernels::ColumnRange HeadTensors::AttendedColumns(int64_t row) const {
  const int32_t position = row_positions[static_cast<size_t>(row)];
  const int32_t begin = window > 0 ? std::max(0, position - window + 1) : 0;
  return {begin, std::min(position + 1, static_cast<int32_t>(num_tokens))};
}

HeadTensorsPtr LoadHead(const data::TraceReader& trace, HeadId id, HeadPlace place) {
  const data::TraceLayout& layout = trace.layout();
  const int32_t layer_slot = trace.LayerSlot(id.layer);
  const int32_t head_slot = trace.QoHeadSlot(id.head);
  if (layer_slot < 0 || head_slot < 0) {
    throw std::invalid_argument("head " + HeadName(id) + " is not in " + trace.path() + ": recorded are layers " +
                                Names(layout.layers) + " and query heads " + Names(layout.qo_heads));
  }
  const int32_t group = layout.model.num_qo_heads / layout.model.num_kv_heads;
  auto head = std::make_shared<HeadTensors>();
  head->id = id;
  head->kv_head = id.head / group;
  const int32_t kv_slot = trace.KvHeadSlot(head->kv_head);
  if (kv_slot < 0) {
    throw std::invalid_argument("KV head " + std::to_string(head->kv_head) + " of head " + HeadName(id) +
                                " is not in " + trace.path() + ": recorded are KV heads " + Names(layout.kv_heads));
  }
  head->head_dim = layout.model.head_dim;
  head->row_positions = trace.row_positions();
  head->num_rows = static_cast<int64_t>(head->row_positions.size());
  head->num_tokens = trace.num_tokens();
  if (head->num_rows > 0 && head->row_positions.back() >= head->num_tokens) {
    throw data::BadTraceError(trace.path() + ": a query row stands at position " +
                              std::to_string(head->row_positions.back()) + ", but only " +
                              std::to_string(head->num_tokens) + " tokens are recorded: capture again");
  }
  head->scale = layout.softmax_scale > 0 ? layout.softmax_scale : 1.0f / std::sqrt(static_cast<float>(head->head_dim));
  head->soft_cap = layout.soft_cap;
  head->window = layout.window_per_layer.empty() ? 0 : layout.window_per_layer[static_cast<size_t>(layer_slot)];
  head->q = ReadDecoded(head->num_rows, head->head_dim, layout.encoding, [&](int64_t begin, int64_t end, void* out) {
    trace.ReadQ(layer_slot, head_slot, begin, end, out);
  });
  head->k = ReadDecoded(head->num_tokens, head->head_dim, layout.encoding, [&](int64_t begin, int64_t end, void* out) {
    trace.ReadK(layer_slot, kv_slot, begin, end, out);
  });
  head->v = ReadDecoded(head->num_tokens, head->head_dim, layout.encoding, [&](int64_t begin, int64_t end, void* out) {
    trace.ReadV(layer_slot, kv_slot, begin, end, out);
  });
  head->lse.resize(static_cast<size_t>(head->num_rows));
  if (layout.first_token > 0) {
    ComputeLse(head.get(), trace.path());
  } else if (head->num_rows > 0) {
    trace.ReadLse(layer_slot, head_slot, 0, head->num_rows, head->lse.data());
  }
  CheckFinite(head->q, "q", id, trace.path());
  CheckFinite(head->k, "k", id, trace.path());
  CheckFinite(head->v, "v", id, trace.path());
  CheckFinite(head->lse, "lse", id, trace.path());
  // What keeps a head off the GPU keeps no one from looking at it: the CPU gives the same numbers.
  if (place == HeadPlace::kGpuWhereExact) static_cast<void>(CopyToGpu(*head, &head->gpu));
  return head;
}

std::vector<HeadId> RecordedHeads(const data::TraceReader& trace) {
  std::vector<HeadId> heads;
  for (const int32_t layer : trace.layout().layers) {
    for (const int32_t head : trace.layout().qo_heads) heads.push_back({layer, head});
  }
  return heads;
}

}  // namespace headscope::analysis
