// SPDX-License-Identifier: Apache-2.0
#include "bench/trace_heads.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <vector>

#include "base/errors.h"
#include "bench/stored_numbers.h"

namespace headscope::app::bench {
namespace {

using kernels::DType;
using kernels::SeededTensor;

// "FILE:12" has a layer behind the file's name.
struct HeadPlace {
  std::string file;
  int32_t layer = -1;
};
HeadPlace ParsePlace(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon + 1 == text.size()) return {text};
  int32_t layer = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data() + colon + 1, end, layer);
  if (error != std::errc() || stopped != end || layer < 0) return {text};
  return {text.substr(0, colon), layer};
}

// Why a layer will not do, or nothing.
std::string Fault(const data::LayerFacts& facts, TakenLayers taken) {
  if (static_cast<int32_t>(facts.qo_heads.size()) != facts.num_qo_heads) return "not all of its heads were recorded";
  if (facts.head_dim % 8 != 0 || facts.head_dim > 256) return "its head_dim is not a multiple of 8 up to 256";
  if (facts.v_head_dim % 8 != 0 || facts.v_head_dim > 256)
    return "its values' head_dim is not a multiple of 8 up to 256";
  if (facts.bidirectional) return "its rows see the keys after them";
  if (facts.chunk > 0) return "its rows see a chunk of the keys";
  if (taken == TakenLayers::kAny) return "";
  if (facts.window > 0) return "its rows see a window of the keys";
  if (facts.soft_cap != 0) return "its scores have a soft cap";
  if (!facts.sinks.empty()) return "its softmax has sinks";
  if (facts.v_head_dim != facts.head_dim) return "its values differ from its keys in head_dim";
  return "";
}

}  // namespace

TraceHeads::TraceHeads(const std::string& text, TakenLayers taken) : reader_(ParsePlace(text).file) {
  const HeadPlace place = ParsePlace(text);
  const std::vector<int32_t>& layers = reader_.layout().layers;
  const auto refuse = [&](const std::string& problem, const std::string& remedy) {
    throw BadInputError({.file = place.file, .problem = problem, .remedy = remedy});
  };
  if (reader_.num_tokens() < 1) refuse("it has no tokens yet", "wait until it is captured");
  if (reader_.num_rows() != reader_.num_tokens())
    refuse("not all query rows were recorded", "capture it with all of them");
  if (place.layer >= 0) {
    slot_ = reader_.LayerSlot(place.layer);
    if (slot_ < 0) refuse("layer " + std::to_string(place.layer) + " was not recorded", "name one that was");
    if (const std::string fault = Fault(facts(), taken); !fault.empty())
      refuse("layer " + std::to_string(place.layer) + ": " + fault, "name another layer");
  } else {
    const auto slots = static_cast<int32_t>(layers.size());
    for (const TakenLayers want : {TakenLayers::kPlain, taken}) {
      for (slot_ = 0; slot_ < slots && !Fault(facts(), want).empty();) ++slot_;
      if (slot_ < slots) break;
    }
    if (slot_ == slots)
      refuse("no recorded layer with all of its heads is of a kind that this device's executors take",
             "name another trace");
  }
  name_ = "trace " + place.file + ", layer " + std::to_string(layer());
}

DType TraceHeads::dtype() const {
  return KernelTypeOf<DType>(reader_.layout().encoding);
}

void TraceHeads::SetShape(kernels::SeededProblem* shape) const {
  shape->num_qo_heads = facts().num_qo_heads;
  shape->num_kv_heads = facts().num_kv_heads;
  shape->head_dim = facts().head_dim;
}

void TraceHeads::Fill(const kernels::SeededProblem& shape, SeededTensor tensor, DType dtype, int32_t first_token,
                      void* out) const {
  const bool query = tensor == SeededTensor::kQuery;
  const int32_t heads = query ? shape.num_qo_heads : shape.num_kv_heads;
  const int64_t end = int64_t{first_token} + shape.seq_k, begin = query ? end - shape.seq_q : first_token;
  const int64_t count = (end - begin) * (tensor == SeededTensor::kValue ? facts().v_head_dim : shape.head_dim);
  const ElementType encoding = reader_.layout().encoding;
  std::vector<char> raw(static_cast<size_t>(count * SizeOf(encoding)));
  std::vector<float> values(static_cast<size_t>(count));
  auto* to = static_cast<char*>(out);
  for (int32_t head = 0; head < heads; ++head, to += count * kernels::SizeOf(dtype)) {
    if (query) {
      reader_.ReadQ(slot_, head, begin, end, raw.data());
    } else if (tensor == SeededTensor::kKey) {
      reader_.ReadK(slot_, head, begin, end, raw.data());
    } else {
      reader_.ReadV(slot_, head, begin, end, raw.data());
    }
    if (dtype == this->dtype()) {
      std::memcpy(to, raw.data(), raw.size());
      continue;
    }
    data::DecodeToFloat(raw.data(), encoding, count, values.data());
    StoreNumbers(values, dtype, to);
  }
}

}  // namespace headscope::app::bench
