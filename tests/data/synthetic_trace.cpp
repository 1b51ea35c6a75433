#include "synthetic_trace.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace headscope::data::testing {
namespace {

constexpr int64_t kRowsEvery = 2;

// [heads, count, head_dim] of one layer in the layout's encoding.
std::vector<unsigned char> Block(const TraceLayout& layout, Tensor tensor, int32_t layer,
                                 const std::vector<int32_t>& heads, const std::vector<int32_t>& positions) {
  const auto width = static_cast<size_t>(SizeOf(layout.encoding));
  std::vector<unsigned char> bytes;
  bytes.reserve(heads.size() * positions.size() * static_cast<size_t>(layout.model.head_dim) * width);
  for (const int32_t head : heads) {
    for (const int32_t position : positions) {
      for (int32_t dim = 0; dim < layout.model.head_dim; ++dim) {
        const uint32_t bits = ValueBits(layout.encoding, PlaceHash(tensor, layer, head, position, dim));
        unsigned char raw[4];
        std::memcpy(raw, &bits, 4);
        bytes.insert(bytes.end(), raw, raw + width);
      }
    }
  }
  return bytes;
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

uint32_t ValueBits(Encoding encoding, uint64_t hash) {
  const auto sign = static_cast<uint32_t>(hash >> 63);
  const auto mantissa = static_cast<uint32_t>(hash >> 32) & 0x7fffffu;
  switch (encoding) {
    case Encoding::kFloat32:
      return sign << 31 | 127u << 23 | mantissa;
    case Encoding::kBFloat16:
      return sign << 15 | 127u << 7 | (mantissa & 0x7fu);
    case Encoding::kFloat16:
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
  return {number * 3 % 4096, decode ? TokenPhase::kDecode : TokenPhase::kPrompt, decode ? number : 0, text};
}

TraceLayout SmallLayout(Encoding encoding, int64_t max_tokens) {
  TraceLayout layout;
  layout.model = {"synthetic", "llama", R"({"hidden_size": 128})", std::string(64, 'a'), std::string(64, 'b'), 5, 8,
                  4,           16};
  layout.layers = {0, 2, 4};
  layout.qo_heads = {1, 2, 3, 5};
  layout.kv_heads = {0, 1, 2};
  layout.encoding = encoding;
  layout.softmax_scale = 0.25f;
  layout.window_per_layer = {0, 64, 0};
  layout.row_selection = "every:2";
  layout.prompt_source = "text";
  layout.task_answer = " 99405";
  layout.max_tokens = max_tokens;
  return layout;
}

bool Recorded(const TraceLayout& layout, int64_t position) {
  return layout.row_selection == "all" || position % kRowsEvery == 0;
}

StressVariant Variant(int number) {
  constexpr Encoding kEncodings[] = {Encoding::kBFloat16, Encoding::kFloat32, Encoding::kFloat16};
  constexpr int64_t kPasses[] = {1, 16, 5, 128};
  StressVariant variant{.layout = SmallLayout(kEncodings[number % 3], int64_t{1} << 20)};
  variant.layout.model.head_dim =
      number / 4 % 2 == 0 ? 128 : 24;  // 128: chunks of exactly 256 KiB; 24 does not divide them
  variant.layout.row_selection = number % 5 == 0 ? "every:2" : "all";
  variant.pass = kPasses[number % 4];
  variant.flush_every = variant.pass == 1 ? 16 : 1;
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
    const int32_t layer = layout.layers[slot];
    const auto q = Block(layout, Tensor::kQ, layer, layout.qo_heads, rows);
    const auto k = Block(layout, Tensor::kK, layer, layout.kv_heads, positions);
    const auto v = Block(layout, Tensor::kV, layer, layout.kv_heads, positions);
    std::vector<float> lse;
    for (const int32_t head : layout.qo_heads) {
      for (const int32_t row : rows) {
        lse.push_back(LseValue(layer, head, row));
      }
    }
    writer.Append({.layer_slot = static_cast<int32_t>(slot),
                   .first_token = begin,
                   .num_tokens = end - begin,
                   .first_row = first_row,
                   .num_rows = static_cast<int64_t>(rows.size()),
                   .q = q.data(),
                   .k = k.data(),
                   .v = v.data(),
                   .lse = lse.data()});
  }
}

void WriteTrace(const std::string& path, const TraceLayout& layout, int64_t num_tokens, int64_t pass,
                int64_t expected_rows) {
  TraceWriter writer(path, layout, false, expected_rows);
  for (int64_t begin = 0; begin < num_tokens; begin += pass) {
    AppendPass(writer, layout, begin, std::min(begin + pass, num_tokens), num_tokens);
  }
  writer.Finish();
}

std::string TinyTrace() {
  const ScratchFolder folder;
  TraceLayout layout = SmallLayout(Encoding::kBFloat16, 8);
  layout.layers = {1};
  layout.window_per_layer = {0};
  layout.qo_heads = {2};
  layout.kv_heads = {1};
  layout.model.head_dim = 4;
  WriteTrace(folder.File("t.h5"), layout, 8, 4);
  std::ifstream in(folder.File("t.h5"), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string FirstDifference(const TraceReader& reader, int64_t num_prompt) {
  const TraceLayout& layout = reader.layout();
  std::vector<int32_t> positions, rows;
  for (int64_t i = 0; i < reader.num_tokens(); ++i) {
    const TokenRecord expected = TokenAt(i, num_prompt), &found = reader.tokens()[static_cast<size_t>(i)];
    if (found.id != expected.id || found.phase != expected.phase || found.step != expected.step ||
        found.text != expected.text) {
      return "token " + std::to_string(i);
    }
    positions.push_back(static_cast<int32_t>(i));
    if (Recorded(layout, i)) {
      rows.push_back(static_cast<int32_t>(i));
    }
  }
  if (reader.row_positions() != rows || reader.num_rows() != static_cast<int64_t>(rows.size())) {
    return "row positions";
  }
  const auto vector_bytes = static_cast<size_t>(layout.model.head_dim * SizeOf(layout.encoding));
  std::vector<unsigned char> found;
  for (int32_t slot = 0; slot < static_cast<int32_t>(layout.layers.size()); ++slot) {
    const int32_t layer = layout.layers[static_cast<size_t>(slot)];
    const std::string where = " of layer " + std::to_string(layer);
    for (int32_t head = 0; head < static_cast<int32_t>(layout.qo_heads.size()); ++head) {
      const int32_t number = layout.qo_heads[static_cast<size_t>(head)];
      found.assign(rows.size() * vector_bytes, 0);
      reader.ReadQ(slot, head, 0, reader.num_rows(), found.data());
      if (found != Block(layout, Tensor::kQ, layer, {number}, rows)) {
        return "q of head " + std::to_string(number) + where;
      }
      std::vector<float> lse(rows.size());
      reader.ReadLse(slot, head, 0, reader.num_rows(), lse.data());
      for (size_t i = 0; i < rows.size(); ++i) {
        if (lse[i] != LseValue(layer, number, rows[i])) {
          return "lse of head " + std::to_string(number) + where + " at row " + std::to_string(i);
        }
      }
    }
    for (int32_t head = 0; head < static_cast<int32_t>(layout.kv_heads.size()); ++head) {
      const int32_t number = layout.kv_heads[static_cast<size_t>(head)];
      found.assign(positions.size() * vector_bytes, 0);
      reader.ReadK(slot, head, 0, reader.num_tokens(), found.data());
      if (found != Block(layout, Tensor::kK, layer, {number}, positions)) {
        return "k of head " + std::to_string(number) + where;
      }
      reader.ReadV(slot, head, 0, reader.num_tokens(), found.data());
      if (found != Block(layout, Tensor::kV, layer, {number}, positions)) {
        return "v of head " + std::to_string(number) + where;
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
