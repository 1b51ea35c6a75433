// SPDX-License-Identifier: Apache-2.0
#include "analysis/head_tensors.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>

#include "base/error_with_help.h"
#include "base/errors.h"
#include "data/row_positions.h"
#include "head/frame_problem.h"
#include "head/head_checks.h"
#include "head/head_on_gpu.h"
#include "head/read_tensors.h"
#include "kernels/cuda_devices.h"

namespace headscope::analysis {
namespace {

std::string Names(const std::vector<int32_t>& numbers) {
  std::string text;
  for (const int32_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

// Decodes in pieces, so that a long head needs no second copy in the file's encoding.
template <typename Read>
std::vector<float> ReadDecoded(int64_t rows, int32_t head_dim, ElementType encoding, Read&& read) {
  constexpr int64_t kPiece = 4096;
  std::vector<float> values(static_cast<size_t>(rows * head_dim));
  std::vector<uint8_t> raw(static_cast<size_t>(std::min(rows, kPiece) * head_dim * SizeOf(encoding)));
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
  throw BadInputError({.file = path,
                       .problem = std::string(tensor) + " of head " + HeadName(id) +
                                  " holds values that are not finite: capture again in fp32, and if they "
                                  "stay, the model's weights hold such values"});
}

}  // namespace

bool HeadFrame::RowsContiguous() const {
  return data::RowsContiguous(row_positions);
}

kernels::AttentionProblem HeadTensors::Problem() const {
  kernels::AttentionProblem problem = FrameProblem(*this);
  problem.num_qo_heads = 1;
  problem.num_kv_heads = 1;
  problem.layer = id.layer;
  problem.first_qo_head = id.head;
  problem.first_kv_head = kv_head;
  if (sink) problem.sinks = &*sink;
  kernels::SetContiguousTensors(q.data(), k.data(), v.data(), &problem);
  return problem;
}

double HeadTensors::SinkMass(int64_t row) const {
  if (!sink) return 0;
  return std::exp(static_cast<double>(*sink) - static_cast<double>(lse[static_cast<size_t>(row)]));
}

kernels::ColumnRange HeadFrame::AttendedColumns(int64_t row) const {
  if (bidirectional) return {0, static_cast<int32_t>(num_tokens)};
  const int32_t position = row_positions[static_cast<size_t>(row)];
  const auto begin = static_cast<int32_t>(std::max<int64_t>(0, FirstSeen(row) - first_token));
  return {begin, std::min(position + 1, static_cast<int32_t>(num_tokens))};
}

bool HeadFrame::SeesAllItsKeys(int64_t row) const {
  return FirstSeen(row) >= first_token;
}

int64_t HeadFrame::FirstSeen(int64_t row) const {
  data::LayerFacts facts;
  facts.window = window;
  facts.chunk = chunk;
  return facts.FirstSeen(first_token + row_positions[static_cast<size_t>(row)]);
}

HeadSlots FindHead(const data::TraceReader& trace, HeadId id) {
  const data::TraceLayout& layout = trace.layout();
  HeadSlots slots;
  slots.layer = trace.LayerSlot(id.layer);
  slots.qo_head = slots.layer < 0 ? -1 : trace.QoHeadSlot(slots.layer, id.head);
  if (slots.qo_head < 0) {
    const data::LayerFacts& shown = slots.layer < 0 ? layout.facts.front() : trace.layer(slots.layer);
    throw UsageError({.file = trace.path(),
                      .field = "head",
                      .value = HeadName(id),
                      .problem = "it is not among the recorded ones, layers " + Names(layout.layers) +
                                 " and query heads " + Names(shown.qo_heads),
                      .remedy = "choose one of them"});
  }
  const data::LayerFacts& facts = trace.layer(slots.layer);
  slots.kv_number = id.head / facts.GroupSize();
  slots.kv_head = trace.KvHeadSlot(slots.layer, slots.kv_number);
  if (slots.kv_head < 0) {
    throw UsageError({.file = trace.path(),
                      .field = "head",
                      .value = HeadName(id),
                      .problem = "its KV head " + std::to_string(slots.kv_number) +
                                 " is not among the recorded ones, " + Names(facts.kv_heads),
                      .remedy = "choose a head of one of them"});
  }
  return slots;
}

HeadFrame ReadFrame(const data::TraceReader& trace, int32_t layer_slot) {
  const data::LayerFacts& facts = trace.layer(layer_slot);
  HeadFrame frame;
  frame.head_dim = facts.head_dim;
  frame.v_head_dim = facts.v_head_dim;
  frame.layer_group_size = facts.GroupSize();
  frame.layer_kv_heads = facts.num_kv_heads;
  frame.row_positions = trace.row_positions();
  frame.num_rows = static_cast<int64_t>(frame.row_positions.size());
  frame.num_tokens = trace.num_tokens();
  frame.prompt_tokens = std::ranges::count(trace.tokens(), data::TokenPhase::kPrompt, &data::TokenRecord::phase);
  if (frame.num_rows > 0 && frame.row_positions.back() >= frame.num_tokens) {
    throw BadInputError({.file = trace.path(),
                         .problem = "a query row stands at position " + std::to_string(frame.row_positions.back()) +
                                    ", but only " + std::to_string(frame.num_tokens) +
                                    " tokens are recorded: capture again"});
  }
  frame.scale = facts.softmax_scale;
  frame.soft_cap = facts.soft_cap;
  frame.window = facts.window;
  frame.chunk = facts.chunk;
  frame.bidirectional = facts.bidirectional;
  frame.first_token = trace.layout().first_token;
  frame.num_layers = trace.layout().model.num_layers;
  if (facts.rope.convention != data::RopeConvention::kNone) {
    frame.rope = {.theta = facts.rope.theta,
                  .num_dims = facts.rope.num_dims,
                  .first_dim = facts.rope.first_dim,
                  .interleaved = facts.rope.convention == data::RopeConvention::kInterleaved,
                  .attention_factor = facts.rope.attention_factor};
  }
  return frame;
}

std::vector<float> ReadQueries(const data::TraceReader& trace, const HeadSlots& slots, const HeadFrame& frame,
                               HeadId id) {
  std::vector<float> q = ReadDecoded(
      frame.num_rows, frame.head_dim, trace.layout().encoding,
      [&](int64_t begin, int64_t end, void* out) { trace.ReadQ(slots.layer, slots.qo_head, begin, end, out); });
  CheckFinite(q, "q", id, trace.path());
  return q;
}

std::vector<float> ReadQueriesPreRope(const data::TraceReader& trace, const HeadSlots& slots, const HeadFrame& frame,
                                      HeadId id) {
  if (!trace.Has(slots.layer, data::TraceTensor::kQPreRope)) return {};
  std::vector<float> q =
      ReadDecoded(frame.num_rows, frame.head_dim, trace.layout().encoding, [&](int64_t begin, int64_t end, void* out) {
        trace.Read(data::TraceTensor::kQPreRope, slots.layer, slots.qo_head, begin, end, out);
      });
  CheckFinite(q, "q before RoPE", id, trace.path());
  return q;
}

std::vector<float> ReadKeys(const data::TraceReader& trace, const HeadSlots& slots, const HeadFrame& frame, HeadId id) {
  std::vector<float> k = ReadDecoded(
      frame.num_tokens, frame.head_dim, trace.layout().encoding,
      [&](int64_t begin, int64_t end, void* out) { trace.ReadK(slots.layer, slots.kv_head, begin, end, out); });
  CheckFinite(k, "k", id, trace.path());
  return k;
}

std::vector<float> ReadValues(const data::TraceReader& trace, const HeadSlots& slots, const HeadFrame& frame,
                              HeadId id) {
  std::vector<float> v = ReadDecoded(
      frame.num_tokens, frame.ValueDim(), trace.layout().encoding,
      [&](int64_t begin, int64_t end, void* out) { trace.ReadV(slots.layer, slots.kv_head, begin, end, out); });
  CheckFinite(v, "v", id, trace.path());
  return v;
}

bool HasL1ValueNorms(const data::TraceReader& trace, int32_t layer_slot) {
  return trace.Has(layer_slot, data::TraceTensor::kValueNormsL1);
}

std::vector<float> ReadValueNorms(const data::TraceReader& trace, const HeadSlots& slots, const HeadFrame& frame,
                                  HeadId id) {
  const bool l1 = HasL1ValueNorms(trace, slots.layer);
  const data::TraceTensor tensor = l1 ? data::TraceTensor::kValueNormsL1 : data::TraceTensor::kValueNorms;
  if (!trace.Has(slots.layer, tensor)) return {};
  std::vector<float> norms(static_cast<size_t>(frame.num_tokens));
  if (!norms.empty()) trace.Read(tensor, slots.layer, slots.qo_head, 0, frame.num_tokens, norms.data());
  CheckFinite(norms, l1 ? "value_norms_l1" : "value_norms", id, trace.path());
  return norms;
}

void ReadLogSumExp(const data::TraceReader& trace, const HeadSlots& slots, HeadTensors* head) {
  head->lse.resize(static_cast<size_t>(head->num_rows));
  if (head->num_rows > 0) trace.ReadLse(slots.layer, slots.qo_head, 0, head->num_rows, head->lse.data());
  CheckFinite(head->lse, "lse", head->id, trace.path());
}

std::optional<float> SinkOf(const data::TraceReader& trace, HeadId id) {
  const std::vector<float>& sinks = trace.layer(trace.LayerSlot(id.layer)).sinks;
  return sinks.empty() ? std::nullopt : std::optional(sinks[static_cast<size_t>(id.head)]);
}

void PutOn(const Device& device, HeadTensors* head) {
  if (!device.is_gpu()) return;
  // What keeps a head off the GPU keeps no one from looking at it: the CPU gives the same numbers.
  const kernels::Status status = CopyToGpu(device, head);
  // Where there is no GPU none was to be had: a command that insists on one has refused before.
  if (!status.ok() && status.code() != kernels::StatusCode::kDeviceMissing) head->gpu_refusal = status.message();
}

void RequireCausal(const data::TraceReader& trace, int32_t layer_slot) {
  if (!trace.layer(layer_slot).bidirectional) return;
  throw ErrorWithHelp<BadInputError>(
      {.file = trace.path(),
       .field = "layer " + std::to_string(trace.layout().layers[static_cast<size_t>(layer_slot)]),
       .problem = "its rows also see later tokens, but statistics and methods need causal attention",
       .remedy = "draw its maps on the command line, or read it from Python with headscope.open"},
      Help::kDrawMap);
}

HeadTensorsPtr LoadHead(const data::TraceReader& trace, HeadId id, const Device& device) {
  RequireCausal(trace, FindHead(trace, id).layer);
  return LoadHeadForMap(trace, id, device);
}

HeadTensorsPtr LoadHeadForMap(const data::TraceReader& trace, HeadId id, const Device& device) {
  const HeadSlots slots = FindHead(trace, id);
  auto head = std::make_shared<HeadTensors>();
  static_cast<HeadFrame&>(*head) = ReadFrame(trace, slots.layer);
  head->id = id;
  head->kv_head = slots.kv_number;
  head->q = ReadQueries(trace, slots, *head, id);
  head->k = ReadKeys(trace, slots, *head, id);
  head->v = ReadValues(trace, slots, *head, id);
  head->value_norms = ReadValueNorms(trace, slots, *head, id);
  head->l1_value_norms = HasL1ValueNorms(trace, slots.layer);
  head->sink = SinkOf(trace, id);
  ReadLogSumExp(trace, slots, head.get());
  head->q_pre_rope = ReadQueriesPreRope(trace, slots, *head, id);
  std::vector<int32_t> ids;
  ids.reserve(static_cast<size_t>(head->num_tokens));
  for (int64_t i = 0; i < head->num_tokens; ++i) ids.push_back(trace.tokens()[static_cast<size_t>(i)].id);
  head->previous_same = std::make_shared<const std::vector<int32_t>>(PreviousSame(ids));
  PutOn(device, head.get());
  return head;
}

std::vector<int32_t> PreviousSame(const std::vector<int32_t>& ids) {
  std::vector<int32_t> previous;
  previous.reserve(ids.size());
  std::unordered_map<int32_t, int32_t> last;
  for (const int32_t id : ids) {
    const auto at = last.try_emplace(id, -1).first;
    previous.push_back(at->second);
    at->second = static_cast<int32_t>(previous.size()) - 1;
  }
  return previous;
}

std::vector<HeadId> RecordedHeads(const data::TraceReader& trace) {
  std::vector<HeadId> heads;
  const data::TraceLayout& layout = trace.layout();
  for (size_t slot = 0; slot < layout.layers.size(); ++slot) {
    for (const int32_t head : layout.facts[slot].qo_heads) heads.push_back({layout.layers[slot], head});
  }
  return heads;
}

}  // namespace headscope::analysis
