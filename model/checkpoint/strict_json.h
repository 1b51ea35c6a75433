// SPDX-License-Identifier: Apache-2.0
// Typed access to the fields of a JSON object of a model folder (json_tree.h).
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "base/quoted_text.h"
#include "checkpoint/json_tree.h"

namespace headscope::model {

// The remedy for a file that is not what its publisher made.
inline constexpr std::string_view kFetchAgain = "fetch the file again";

// What the JSON library found wrong in a parse, without the library's own prefixes.
std::string JsonProblem(const std::exception& error);

// Every refusal names the file and the dotted path of the field. A field that is absent or null counts as not given.
class JsonFields {
 public:
  // Throws BadInputError unless `object` is an object. `path`: of the object itself, empty for the root. The value's
  // tree must outlive this.
  JsonFields(JsonValue object, std::string file, std::string path);

  bool Has(std::string_view key) const { return Find(key).has_value(); }
  bool IsNull(std::string_view key) const;                    // given, as null
  std::optional<JsonValue> Find(std::string_view key) const;  // nothing: not given
  int64_t Integer(std::string_view key, int64_t least, int64_t most,
                  std::optional<int64_t> absent = std::nullopt) const;
  double Number(std::string_view key, std::optional<double> absent = std::nullopt) const;  // finite
  bool Boolean(std::string_view key, std::optional<bool> absent = std::nullopt) const;
  std::string Text(std::string_view key, std::optional<std::string> absent = std::nullopt) const;
  JsonFields Object(std::string_view key) const;
  JsonValue Array(std::string_view key) const;
  // `visit(size_t index, JsonFields)` for every element of an array of objects.
  template <typename Visit>
  void ForEachObject(std::string_view key, const Visit& visit) const {
    size_t index = 0;
    Array(key).ForEachElement([&](const JsonValue& element) {
      visit(index, JsonFields(element, file_, PathOf(key) + "[" + std::to_string(index) + "]"));
      ++index;
    });
  }
  // Refuses with this object's file and the path of `key` in it.
  [[noreturn]] void RefuseField(std::string_view key, std::string_view problem, std::string_view remedy) const;
  // What other programs run and headscope does not; `supported` names what it does, as in "sigmoid is".
  [[noreturn]] void RefuseUnsupported(std::string_view key, std::string_view problem,
                                      std::string_view supported = {}) const;
  const std::string& file() const { return file_; }
  std::string PathOf(std::string_view key) const;

 private:
  JsonValue Required(std::string_view key) const;
  JsonValue object_;
  std::string file_;
  std::string path_;
};

}  // namespace headscope::model
