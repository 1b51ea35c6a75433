// SPDX-License-Identifier: Apache-2.0
#include "trace/index_json.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"

namespace headscope::data {
namespace {

using Json = nlohmann::json;

class IndexJsonReader {
 public:
  IndexJsonReader(const std::string& path, const Json& json) : path_(path), json_(json) {}

  IndexFile Read() const {
    IndexFile index;
    if (Number<int32_t>("version", Member("version")) != 2)
      Refuse("version", "is not 2, the only one of indices in JSON", "use a newer headscope, or save the index again");
    index.method = Text("method");
    index.recipe = Text("recipe");
    for (const auto& [name, member] :
         {std::pair{"num_qo_heads", &IndexFile::num_qo_heads}, std::pair{"num_kv_heads", &IndexFile::num_kv_heads},
          std::pair{"head_dim", &IndexFile::head_dim}, std::pair{"seq_q", &IndexFile::seq_q},
          std::pair{"seq_k", &IndexFile::seq_k}, std::pair{"first_position", &IndexFile::first_position},
          std::pair{"tile_rows", &IndexFile::tile_rows}, std::pair{"mask_kind", &IndexFile::mask_kind},
          std::pair{"window", &IndexFile::window}, std::pair{"num_sinks", &IndexFile::num_sinks}})
      index.*member = Number<int32_t>(name, Member(name));
    index.run_begin = List<int64_t>("run_begin");
    index.run_count = List<int32_t>("run_count");
    index.column_begin = List<int64_t>("column_begin");
    index.column_count = List<int32_t>("column_count");
    index.columns = List<int32_t>("columns");
    index.runs = Pairs("runs");
    index.heads = Pairs("heads");
    // An index without heads would be taken for one layer's, which version 1 alone is.
    if (index.heads.empty() || static_cast<int64_t>(index.heads.size()) != 2 * int64_t{index.num_qo_heads}) {
      Refuse("heads", "has " + std::to_string(index.heads.size() / 2) + " heads, and num_qo_heads is " +
                          std::to_string(index.num_qo_heads));
    }
    for (const auto& [name, size] :
         {std::pair{"run_count", index.run_count.size()}, std::pair{"column_begin", index.column_begin.size()},
          std::pair{"column_count", index.column_count.size()}}) {
      if (size == index.run_begin.size()) continue;
      Refuse(name, "has " + std::to_string(size) + " entries, and run_begin " + std::to_string(index.run_begin.size()));
    }
    return index;
  }

 private:
  [[noreturn]] void Refuse(const std::string& field, const std::string& problem,
                           const std::string& remedy = "save the index again") const {
    throw BadInputError({.file = path_, .field = field, .problem = problem, .remedy = remedy});
  }

  const Json& Member(const char* field) const {
    const auto found = json_.find(field);
    if (found == json_.end()) Refuse(field, "is missing");
    return *found;
  }

  std::string Text(const char* field) const {
    const Json& value = Member(field);
    if (!value.is_string()) Refuse(field, "is not a text");
    return value.get<std::string>();
  }

  template <typename T>
  T Number(const char* field, const Json& value) const {
    static_assert(sizeof(T) == sizeof(int32_t) || sizeof(T) == sizeof(int64_t));
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    const bool whole = value.is_number_integer() && !(value.is_number_unsigned() && value.get<uint64_t>() > kMost);
    const int64_t number = whole ? value.get<int64_t>() : 0;
    // A run's length and flags share an int32_t, whose sign is one of the flags' bits.
    if (!whole || number < std::numeric_limits<T>::min() || number > std::numeric_limits<T>::max())
      Refuse(field, sizeof(T) == sizeof(int32_t) ? "holds something other than whole numbers of 32 bits"
                                                 : "holds something other than whole numbers of 64 bits");
    return static_cast<T>(number);
  }

  template <typename T>
  std::vector<T> List(const char* field) const {
    const Json& value = Member(field);
    if (!value.is_array()) Refuse(field, "is not a list");
    std::vector<T> list;
    list.reserve(value.size());
    for (const Json& one : value) list.push_back(Number<T>(field, one));
    return list;
  }

  std::vector<int32_t> Pairs(const char* field) const {
    const Json& value = Member(field);
    if (!value.is_array()) Refuse(field, "is not a list");
    std::vector<int32_t> list;
    list.reserve(2 * value.size());
    for (const Json& pair : value) {
      if (!pair.is_array() || pair.size() != 2) Refuse(field, "holds something other than pairs");
      for (const Json& one : pair) list.push_back(Number<int32_t>(field, one));
    }
    return list;
  }

  const std::string& path_;
  const Json& json_;
};

}  // namespace

bool IsIndexJson(const Json& json) {
  return json.is_object() && json.value("format", Json()) == "headscope-index";
}

IndexFile IndexOfJson(const std::string& path, const Json& json) {
  return IndexJsonReader(path, json).Read();
}

}  // namespace headscope::data
