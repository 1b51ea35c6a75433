// SPDX-License-Identifier: Apache-2.0
#include "synthetic_trace.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "trace/trace_tensors.h"

namespace headscope::data::testing {
namespace {

constexpr int64_t kRowsEvery = 2;

Tensor TagOf(TraceTensor tensor) {
  return static_cast<Tensor>(static_cast<int>(tensor) + 1);
}

std::vector<int32_t> Count(int64_t count) {
  std::vector<int32_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

std::vector<int32_t> HeadsOf(const TensorSpec& spec, const LayerFacts& facts) {
  if (spec.heads == TensorSpec::Heads::kQo) return facts.qo_heads;
  if (spec.heads == TensorSpec::Heads::kKv) return facts.kv_heads;
  return Count(NumHeads(spec, facts));
}

// Values [heads, positions, components] of one layer, in the layout's encoding or in 4 bytes. Values of a layer that
// reads another's, and of v where it is k, are those.
std::vector<unsigned char> Block(const TraceLayout& layout, const TensorSpec& spec, size_t slot,
                                 const std::vector<int32_t>& heads, const std::vector<int32_t>& positions) {
  const LayerFacts& facts = layout.facts[slot];
  const TraceTensor tensor = spec.tensor;
  const bool shared = tensor == TraceTensor::kK || tensor == TraceTensor::kV;
  const int32_t layer = shared && facts.kv_layer >= 0 ? facts.kv_layer : layout.layers[slot];
  const Tensor tag = TagOf(tensor == TraceTensor::kV && facts.v_is_k ? TraceTensor::kK : tensor);
  const bool encoded = spec.type == TensorSpec::Type::kEncoding;
  const auto width = static_cast<size_t>(ComponentBytes(spec, layout.encoding));
  const int64_t components = NumComponents(spec, facts);
  std::vector<unsigned char> bytes;
  bytes.reserve(heads.size() * positions.size() * static_cast<size_t>(components) * width);
  for (const int32_t head : heads) {
    for (const int32_t position : positions) {
      for (int64_t dim = 0; dim < components; ++dim) {
        const uint64_t hash = PlaceHash(tag, layer, head, position, dim);
        const float scalar = static_cast<float>(hash >> 44) / 1024.0f;
        const uint32_t bits = encoded                                 ? ValueBits(layout.encoding, hash)
                              : spec.type == TensorSpec::Type::kInt32 ? static_cast<uint32_t>(hash >> 44)
                                                                      : std::bit_cast<uint32_t>(scalar);
        unsigned char raw[4];
        std::memcpy(raw, &bits, 4);
        bytes.insert(bytes.end(), raw, raw + width);
      }
    }
  }
  return bytes;
}

// Whether the layout says that a layer has the tensor, stored or shared.
bool Present(const TraceLayout& layout, size_t slot, TraceTensor tensor) {
  return tensor == TraceTensor::kK || tensor == TraceTensor::kV || Stores(layout, slot, tensor);
}

std::string FileBytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

uint64_t PlaceHash(Tensor tensor, int64_t layer, int64_t head, int64_t position, int64_t dim) {
  uint64_t x = static_cast<uint64_t>(tensor);
  for (const int64_t part : {layer, head, position, dim}) {
    x = (x ^ static_cast<uint64_t>(part)) * 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
  }
  return x;
}

uint32_t ValueBits(ElementType encoding, uint64_t hash) {
  const auto sign = static_cast<uint32_t>(hash >> 63);
  const auto mantissa = static_cast<uint32_t>(hash >> 32) & 0x7fffffu;
  switch (encoding) {
    case ElementType::kFloat32:
      return sign << 31 | 127u << 23 | mantissa;
    case ElementType::kBFloat16:
      return sign << 15 | 127u << 7 | (mantissa & 0x7fu);
    case ElementType::kFloat16:
      return sign << 15 | 15u << 10 | (mantissa & 0x3ffu);
  }
  throw std::logic_error("unknown encoding");
}

float LseValue(int64_t layer, int64_t head, int64_t position) {
  return static_cast<float>(PlaceHash(Tensor::kLse, layer, head, position, 0) >> 44) / 1024.0f;
}

TokenRecord TokenAt(int64_t position, int64_t num_prompt) {
  // Every seventh token has no text of its own, as parts of a UTF-8 sequence do; some hold bytes that are no valid
  // UTF-8.
  const auto number = static_cast<int32_t>(position);
  std::string text = position % 7 == 3 ? "" : " t" + std::to_string(position);
  if (position % 11 == 5) {
    text += '\xe2';
  }
  const bool decode = position >= num_prompt;
  return {number * 3 % 4096,
          decode ? TokenPhase::kDecode : TokenPhase::kPrompt,
          decode ? number : 0,
          text,
          static_cast<TokenRole>(number % 5),
          {number / 3, number % 7, number}};
}

TraceLayout SmallLayout(ElementType encoding, int64_t max_tokens) {
  TraceLayout layout;
  layout.model = {"synthetic", "llama", R"({"hidden_size": 128})", std::string(64, 'a'), std::string(64, 'b'), 5, 8, 4,
                  16,          {}};
  layout.layers = {0, 2, 4};
  LayerFacts facts = UsualFacts(layout.model);
  facts.qo_heads = {1, 2, 3, 5};
  facts.kv_heads = {0, 1, 2};
  facts.softmax_scale = 0.25f;
  layout.facts.assign(3, facts);
  layout.facts[1].window = 64;
  layout.encoding = encoding;
  layout.row_selection = "every:2";
  layout.prompt_source = "text";
  layout.task_answer = " 99405";
  layout.answer_tokens = 2;
  layout.answer_score = 1;
  layout.max_tokens = max_tokens;
  return layout;
}

void SetHeadDim(TraceLayout* layout, int32_t head_dim) {
  layout->model.head_dim = head_dim;
  for (LayerFacts& facts : layout->facts) facts.head_dim = facts.v_head_dim = head_dim;
}

TraceLayout DifferingLayout(ElementType encoding, int64_t max_tokens) {
  TraceLayout layout = SmallLayout(encoding, max_tokens);
  layout.model.num_layers = 6;
  layout.model.layer_kinds = {LayerKind::kLinear,  LayerKind::kAttention, LayerKind::kSliding,
                              LayerKind::kChunked, LayerKind::kAttention, LayerKind::kNone};
  layout.layers = {1, 2, 3, 4};
  layout.facts.resize(4);
  layout.facts[0] = {.num_qo_heads = 8,
                     .num_kv_heads = 4,
                     .head_dim = 24,
                     .v_head_dim = 16,
                     .qo_heads = {1, 2, 5},
                     .kv_heads = {0, 1, 2},
                     .softmax_scale = 0.25f,
                     .soft_cap = 30,
                     .rope = {RopeConvention::kInterleaved, 1e6f, 8, 16, 1.25f},
                     .norm = NormPlace::kHeadBeforeRope,
                     .output_gate = OutputGate::kPerChannel};
  layout.facts[1] = {.num_qo_heads = 6,
                     .num_kv_heads = 2,
                     .head_dim = 16,
                     .v_head_dim = 16,
                     .qo_heads = {0, 1, 4},
                     .kv_heads = {0, 1},
                     .softmax_scale = 0.125f,
                     .window = 5,
                     .rope = {RopeConvention::kHalf, 1e4f, 0, 0, 1},
                     .sinks = {0.5f, -1, 2, 0.25f, 3, -7},
                     .selection = {2, 3, 4, 2, 1, 12}};
  layout.facts[2] = {.num_qo_heads = 4,
                     .num_kv_heads = 1,
                     .head_dim = 32,
                     .v_head_dim = 12,
                     .qo_heads = {0, 3},
                     .kv_heads = {0},
                     .softmax_scale = 0.5f,
                     .chunk = 6,
                     .rope = {.convention = RopeConvention::kNone},
                     .v_is_k = true,
                     .selection_layer = 2,
                     .has_pre_rope = true,
                     .has_value_norms = true,
                     .has_hidden_norms = true,
                     .has_projection = true,
                     .has_cache = true,
                     .has_residual = true,
                     .has_head_outputs = true,
                     .has_value_norms_l1 = true,
                     .hidden_size = 40};
  layout.facts[3] = layout.facts[2];
  layout.facts[3].chunk = 0;
  layout.facts[3].qo_heads = {1, 2};
  layout.facts[3].kv_layer = 3;
  layout.facts[3].has_pre_rope = false;
  layout.has_roles = true;
  layout.position_axes = 3;
  return layout;
}

bool Recorded(const TraceLayout& layout, int64_t position) {
  return layout.row_selection == "all" || position % kRowsEvery == 0;
}

StressVariant Variant(int number) {
  constexpr ElementType kEncodings[] = {ElementType::kBFloat16, ElementType::kFloat32, ElementType::kFloat16};
  constexpr int64_t kPasses[] = {1, 16, 5, 128};
  StressVariant variant{.layout = SmallLayout(kEncodings[number % 3], int64_t{1} << 20)};
  SetHeadDim(&variant.layout, number / 4 % 2 == 0 ? 128 : 24);  // 128: chunks of exactly 256 KiB; 24 divides none
  variant.layout.row_selection = number % 5 == 0 ? "every:2" : "all";
  variant.pass = kPasses[number % 4];
  variant.flush_every = variant.pass == 1 ? 16 : 1;
  if (number / 8 % 2 == 1) variant.open_chunk_bytes = kFewOpenChunks;
  return variant;
}

void AppendPass(TraceWriter& writer, const TraceLayout& layout, int64_t begin, int64_t end, int64_t num_prompt) {
  std::vector<TokenRecord> tokens;
  std::vector<int32_t> positions, rows;
  const int64_t first_row = layout.row_selection == "all" ? begin : (begin + kRowsEvery - 1) / kRowsEvery;
  for (int64_t i = begin; i < end; ++i) {
    tokens.push_back(TokenAt(i, num_prompt));
    positions.push_back(static_cast<int32_t>(i));
    if (Recorded(layout, i)) {
      rows.push_back(static_cast<int32_t>(i));
    }
  }
  writer.AppendTokens(tokens);
  writer.AppendRowPositions(rows);
  for (size_t slot = 0; slot < layout.layers.size(); ++slot) {
    LayerBlock block{.layer_slot = static_cast<int32_t>(slot),
                     .first_token = begin,
                     .num_tokens = end - begin,
                     .first_row = first_row,
                     .num_rows = static_cast<int64_t>(rows.size())};
    std::vector<std::vector<unsigned char>> values;
    for (const TensorSpec& spec : kTensorSpecs) {
      if (!Present(layout, slot, spec.tensor)) continue;
      const std::vector<int32_t>& places = spec.of_rows ? rows : positions;
      values.push_back(Block(layout, spec, slot, HeadsOf(spec, layout.facts[slot]), places));
      block.Set(spec.tensor, values.back().data());
    }
    writer.Append(block);
  }
}

void WriteTrace(const std::string& path, const TraceLayout& layout, int64_t num_tokens, int64_t pass,
                int64_t expected_rows, TraceStorage storage, size_t open_chunk_bytes) {
  TraceWriter writer(path, layout, false, expected_rows, storage, open_chunk_bytes);
  for (int64_t begin = 0; begin < num_tokens; begin += pass) {
    AppendPass(writer, layout, begin, std::min(begin + pass, num_tokens), num_tokens);
  }
  writer.Finish();
}

std::string TinyTrace(TraceStorage storage) {
  const ScratchFolder folder;
  TraceLayout layout = SmallLayout(ElementType::kBFloat16, 8);
  layout.layers = {1};
  layout.facts.resize(1);
  layout.facts[0].qo_heads = {2};
  layout.facts[0].kv_heads = {1};
  SetHeadDim(&layout, 4);
  WriteTrace(folder.File("t.h5"), layout, 8, 4, 0, storage);
  return FileBytes(folder.File("t.h5"));
}

std::string TinyDifferingTrace() {
  const ScratchFolder folder;
  WriteTrace(folder.File("t.h5"), DifferingLayout(ElementType::kBFloat16, 8), 8, 4);
  return FileBytes(folder.File("t.h5"));
}

std::string FirstDifference(const TraceReader& reader, int64_t num_prompt) {
  const TraceLayout& layout = reader.layout();
  std::vector<int32_t> positions, rows;
  for (int64_t i = 0; i < reader.num_tokens(); ++i) {
    const TokenRecord expected = TokenAt(i, num_prompt), &found = reader.tokens()[static_cast<size_t>(i)];
    if (found.id != expected.id || found.phase != expected.phase || found.step != expected.step ||
        found.text != expected.text || (layout.has_roles && found.role != expected.role)) {
      return "token " + std::to_string(i);
    }
    if (!std::equal(found.positions.begin(), found.positions.begin() + layout.position_axes,
                    expected.positions.begin())) {
      return "positions of token " + std::to_string(i);
    }
    positions.push_back(static_cast<int32_t>(i));
    if (Recorded(layout, i)) {
      rows.push_back(static_cast<int32_t>(i));
    }
  }
  if (reader.row_positions() != rows || reader.num_rows() != static_cast<int64_t>(rows.size())) {
    return "row positions";
  }
  for (size_t slot = 0; slot < layout.layers.size(); ++slot) {
    const auto number = static_cast<int32_t>(slot);
    for (const TensorSpec& spec : kTensorSpecs) {
      const bool present = Present(layout, slot, spec.tensor);
      const std::string where = std::string(spec.name) + " of layer " + std::to_string(layout.layers[slot]);
      if (reader.Has(number, spec.tensor) != present) return where + " is there or not";
      if (!present) continue;
      const std::vector<int32_t>& places = spec.of_rows ? rows : positions;
      const std::vector<int32_t> heads = HeadsOf(spec, layout.facts[slot]);
      for (size_t head = 0; head < heads.size(); ++head) {
        const std::vector<unsigned char> expected = Block(layout, spec, slot, {heads[head]}, places);
        std::vector<unsigned char> found(expected.size());
        reader.Read(spec.tensor, number, static_cast<int32_t>(head), 0, std::ssize(places), found.data());
        if (found != expected) return where + ", head " + std::to_string(heads[head]);
      }
    }
  }
  return "";
}

ScratchFolder::ScratchFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "headscope-data-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    throw std::runtime_error("no temporary folder");
  }
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace headscope::data::testing
