// SPDX-License-Identifier: Apache-2.0
#include "data/mask_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "data/untrusted_text.h"
#include "trace/index_json.h"

namespace headscope::data {
namespace {

class MaskReader {
 public:
  explicit MaskReader(const std::string& path) : path_(path) {}

  BlockMaskFile Read(const nlohmann::json& json) {
    if (!json.is_object()) Refuse("", "is not a JSON object", "write the block mask's fields as one object");
    ReadBlockSize(json);
    const nlohmann::json& counts = Member(json, "kv_num_blocks");
    const nlohmann::json& heads = OnlyBatch(counts, "kv_num_blocks");
    mask_.num_heads = Extent(heads, "kv_num_blocks", "heads");
    mask_.num_rows = Extent(heads.front(), "kv_num_blocks", "rows");
    mask_.begin.push_back(0);
    const nlohmann::json* const full =
        json.contains("full_kv_num_blocks") && !json["full_kv_num_blocks"].is_null() ? &json : nullptr;
    for (int32_t head = 0; head < mask_.num_heads; ++head) {
      for (int32_t row = 0; row < mask_.num_rows; ++row) {
        AppendRow(json, "kv_num_blocks", "kv_indices", head, row);
        if (full != nullptr) AppendRow(*full, "full_kv_num_blocks", "full_kv_indices", head, row);
        mask_.begin.push_back(static_cast<int64_t>(mask_.blocks.size()));
      }
    }
    return std::move(mask_);
  }

 private:
  [[noreturn]] void Refuse(const std::string& field, const std::string& problem, const std::string& remedy) const {
    throw BadInputError({.file = path_, .field = field, .problem = problem, .remedy = remedy});
  }

  const nlohmann::json& Member(const nlohmann::json& json, const std::string& field) const {
    const auto found = json.find(field);
    if (found == json.end()) Refuse(field, "is missing", "write the block mask with all of its fields");
    return *found;
  }

  int32_t Integer(const nlohmann::json& value, const std::string& field, int64_t least, int64_t most) const {
    const bool fits = value.is_number_integer() && value.get<int64_t>() >= least && value.get<int64_t>() <= most &&
                      !(value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(most));
    if (!fits) {
      Refuse(field,
             "holds " +
                 (value.is_structured()
                      ? std::string(value.type_name()) + "s"
                      : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).substr(0, 40)) +
                 ", must be a whole number from " + std::to_string(least) + " to " + std::to_string(most),
             "write the block mask again");
    }
    return static_cast<int32_t>(value.get<int64_t>());
  }

  void ReadBlockSize(const nlohmann::json& json) {
    const nlohmann::json& size = Member(json, "BLOCK_SIZE");
    constexpr int64_t kMost = 1 << 20;
    if (size.is_array() && size.size() == 2) {
      mask_.block_q = Integer(size[0], "BLOCK_SIZE", 1, kMost);
      mask_.block_k = Integer(size[1], "BLOCK_SIZE", 1, kMost);
    } else {
      mask_.block_q = mask_.block_k = Integer(size, "BLOCK_SIZE", 1, kMost);
    }
  }

  const nlohmann::json& OnlyBatch(const nlohmann::json& value, const std::string& field) const {
    if (!value.is_array() || value.size() != 1)
      Refuse(field, "is not an array with one sequence", "write the mask of one sequence");
    return value.front();
  }

  int32_t Extent(const nlohmann::json& value, const std::string& field, const std::string& what) const {
    constexpr size_t kMost = 1 << 22;
    if (!value.is_array() || value.empty() || value.size() > kMost)
      Refuse(field, "has no array of " + what, "write it as [1, heads, rows]");
    return static_cast<int32_t>(value.size());
  }

  const nlohmann::json& At(const nlohmann::json& heads, const std::string& field, int32_t head, int32_t row) const {
    const bool there = heads.is_array() && heads.size() == static_cast<size_t>(mask_.num_heads) &&
                       heads[static_cast<size_t>(head)].is_array() &&
                       heads[static_cast<size_t>(head)].size() == static_cast<size_t>(mask_.num_rows);
    if (!there) {
      Refuse(field,
             "has another shape than kv_num_blocks, " + std::to_string(mask_.num_heads) + " heads of " +
                 std::to_string(mask_.num_rows) + " rows",
             "write the block mask again");
    }
    return heads[static_cast<size_t>(head)][static_cast<size_t>(row)];
  }

  void AppendRow(const nlohmann::json& json, const std::string& counts, const std::string& indices, int32_t head,
                 int32_t row) {
    const nlohmann::json& list = At(OnlyBatch(Member(json, indices), indices), indices, head, row);
    if (!list.is_array()) Refuse(indices, "has a row that is not an array", "write it as [1, heads, rows, blocks]");
    const nlohmann::json& count = At(OnlyBatch(Member(json, counts), counts), counts, head, row);
    const int32_t used = Integer(count, counts, 0, static_cast<int64_t>(list.size()));
    const int64_t most = (int64_t{1} << 28) / mask_.block_k - 1;
    for (int32_t i = 0; i < used; ++i) mask_.blocks.push_back(Integer(list[static_cast<size_t>(i)], indices, 0, most));
  }

  const std::string path_;
  BlockMaskFile mask_;
};

}  // namespace

std::variant<IndexFile, BlockMaskFile> ReadMaskJson(const std::string& path) {
  const nlohmann::json json =
      ReadUntrustedJson(path, "give a block mask as JSON, or an index file as JSON (less than 64 MiB) or HDF5");
  if (IsIndexJson(json)) return IndexOfJson(path, json);
  return MaskReader(path).Read(json);
}

HeadNumbers ReadHeadNumbers(const std::string& path) {
  const std::string text = ReadUntrustedText(path, "give DuoAttention's full_attention_heads.tsv");
  HeadNumbers numbers;
  size_t begin = 0;
  for (int64_t line = 1; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string field = "line " + std::to_string(line);
    const auto refuse = [&](const std::string& problem) {
      throw BadInputError({.file = path,
                           .field = field,
                           .problem = problem,
                           .remedy = "write one line per layer with a number per KV head, separated by tabs"});
    };
    int32_t count = 0;
    // What NumPy's loadtxt takes, by which DuoAttention's own loader reads the file: comments, and signs.
    const char *at = text.data() + begin, *const stop = std::find(at, text.data() + end, '#');
    const auto separates = [](char character) { return character == '\t' || character == ' ' || character == '\r'; };
    const auto skip = [&] {
      while (at != stop && separates(*at)) ++at;
    };
    for (skip(); at != stop; skip()) {
      double value = 0;
      if (*at == '+' && at + 1 != stop && at[1] != '-') ++at;
      const std::from_chars_result read = std::from_chars(at, stop, value);
      // "0.5.25" and "0.5-1" are no number, rather than two.
      const bool ends = read.ptr == stop || separates(*read.ptr);
      if (read.ec != std::errc() || !ends || !std::isfinite(value)) refuse("holds something other than finite numbers");
      numbers.values.push_back(value);
      at = read.ptr;
      ++count;
    }
    begin = end + 1;
    if (count == 0) continue;
    if (numbers.num_layers > 0 && count != numbers.num_heads)
      refuse("has " + std::to_string(count) + " numbers, but the lines before it have " +
             std::to_string(numbers.num_heads));
    numbers.num_heads = count;
    ++numbers.num_layers;
  }
  if (numbers.num_layers == 0) {
    throw BadInputError({.file = path,
                         .problem = "holds no number",
                         .remedy = "write one line per layer with a number per KV head, separated by tabs"});
  }
  return numbers;
}

std::optional<StreamingSizes> ReadStreamingSizes(const std::string& numbers_path) {
  const std::filesystem::path path = std::filesystem::path(numbers_path).parent_path() / "config.json";
  if (!std::filesystem::exists(path)) return {};
  const nlohmann::json json = ReadUntrustedJson(path.string(), "give the config.json of DuoAttention's pattern");
  if (json.is_discarded()) {
    throw BadInputError({.file = path.string(),
                         .problem = "it is not JSON",
                         .remedy = "correct it, or take the file away to have DuoAttention's usual sizes"});
  }
  if (!json.is_object() || !json.contains("sink_size") || !json.contains("recent_size")) return {};
  const auto size = [&](const char* field) -> int32_t {
    constexpr int64_t kLargest = 1 << 20;
    const nlohmann::json& value = json[field];
    if (value.is_number_integer() && value >= 1 && value <= kLargest) return value.get<int32_t>();
    throw BadInputError({.file = path.string(),
                         .field = field,
                         .value = value.dump(),
                         .problem = "it is not a number of tokens from 1 to 1048576",
                         .remedy = "correct it, or take the file away to have DuoAttention's usual sizes"});
  };
  return StreamingSizes{size("sink_size"), size("recent_size")};
}

}  // namespace headscope::data
